-- Items, their payloads and their history. Times are wall milliseconds; leases count on the boot clock of the one host.

create table kranzq_items (
    seq integer primary key,
    id text not null unique,
    title text not null,
    kind text not null,
    target text not null,
    target_agent text not null,
    target_agent_uid text not null,
    target_group text not null,
    priority integer not null,
    state text not null check (state in ('open', 'delayed', 'claimed', 'lapsed', 'done', 'failed', 'cancelled')),
    claimed_by text not null default '',
    claimed_by_uid text not null default '',
    claim_expires integer,
    lease_boot text not null default '',
    lease_ends integer not null default 0,
    attempts integer not null default 0,
    declined integer not null default 0,
    max_attempts integer not null,
    created_by text not null,
    created_by_uid text not null,
    created_at integer not null,
    updated_at integer not null,
    not_before integer,
    digest text not null,
    result text not null default ''
) strict;

-- A table of its own: a heartbeat rewrites its row, and must not rewrite a payload of a megabyte.
create table kranzq_payloads (
    seq integer primary key references kranzq_items (seq) on delete cascade,
    payload text not null
) strict;

create table kranzq_attempts (
    seq integer not null references kranzq_items (seq) on delete cascade,
    attempt integer not null,
    holder text not null,
    holder_uid text not null,
    request_id text not null,
    claimed_at integer not null,
    ended_at integer,
    ended text,
    why text not null default '',
    primary key (seq, attempt)
) strict, without rowid;

create table kranzq_keys (
    creator text not null,
    key text not null,
    seq integer not null references kranzq_items (seq) on delete cascade,
    primary key (creator, key)
) strict, without rowid;

create table kranzq_seen (
    target text primary key,
    first_at integer not null
) strict, without rowid;

create table kranzq_grace (
    boot text primary key,
    until integer not null
) strict, without rowid;

-- What may be claimed: one index delivers the order of one target, so a claim costs the same behind any backlog.
create index kranzq_ready on kranzq_items (target, priority desc, seq) where state in ('open', 'lapsed');
create index kranzq_ready_kind on kranzq_items (target, kind, priority desc, seq) where state in ('open', 'lapsed');
create index kranzq_leases on kranzq_items (lease_boot, lease_ends) where state = 'claimed';
create index kranzq_due on kranzq_items (not_before) where state = 'delayed';
create index kranzq_listed on kranzq_items (state, updated_at desc, seq desc);
create index kranzq_requests on kranzq_attempts (request_id) where request_id <> '';
create index kranzq_keys_by_item on kranzq_keys (seq);
