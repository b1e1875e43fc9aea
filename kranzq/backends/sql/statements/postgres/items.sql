-- Items come, are shown and go.

-- name: enqueue
with made as (
    insert into kranzq_items (id, title, kind, target, target_agent, target_agent_uid, target_group, priority, state,
        max_attempts, created_by, created_by_uid, created_at, updated_at, not_before, digest)
    values (:id, :title, :kind, :target, :target_agent, :target_agent_uid, :target_group, :priority,
        case when :not_before > :wall then 'delayed' else 'open' end,
        :max_attempts, :created_by, :created_by_uid, :wall, :wall, :not_before, :digest)
    on conflict (id) do nothing
    returning seq, state, created_at
), kept as (
    insert into kranzq_payloads (seq, payload) select seq, :payload from made
)
select seq, state, created_at from made;

-- name: key_add
insert into kranzq_keys (creator, key, seq) values (:creator, :key, :seq) on conflict do nothing returning seq;

-- name: key_find
select i.id, i.digest from kranzq_keys k join kranzq_items i on i.seq = k.seq
where k.creator = :creator and k.key = :key;

-- name: digest
select digest from kranzq_items where id = :id;

-- name: show
select i.*, p.payload from kranzq_items i join kranzq_payloads p on p.seq = i.seq where i.id = :id;

-- name: ready
select i.*, p.payload from kranzq_items i join kranzq_payloads p on p.seq = i.seq
where i.state = :state order by i.priority desc, i.seq limit :most;

-- name: newest
select i.*, p.payload from kranzq_items i join kranzq_payloads p on p.seq = i.seq
where i.state = :state order by i.updated_at desc, i.seq desc limit :most;

-- name: page_keys
select updated_at, seq from kranzq_items
where state = :state and (updated_at, seq) < (:before, :before_seq)
order by updated_at desc, seq desc limit :most;

-- name: page_rows
select i.*, p.payload from json_array_elements_text(cast(:seqs as json)) w (value)
join kranzq_items i on i.seq = cast(w.value as bigint) join kranzq_payloads p on p.seq = i.seq
order by i.updated_at desc, i.seq desc;

-- name: attempts
select a.attempt, a.holder, a.holder_uid, a.claimed_at, a.ended_at, a.ended, a.why
from kranzq_attempts a join kranzq_items i on i.seq = a.seq where i.id = :id order by a.attempt;

-- name: unseen
select i.*, p.payload from kranzq_items i join kranzq_payloads p on p.seq = i.seq
where i.state in ('open', 'lapsed') and i.target <> '*' and not exists (select 1 from kranzq_seen s where s.target = i.target)
order by i.priority desc, i.seq limit :most;

-- name: seen
insert into kranzq_seen (target, first_at) values (:target, :wall) on conflict do nothing;

-- As a subquery of `in` the limit could count for each row anew.
-- name: prune
with gone as materialized (
    select seq from kranzq_items where state in ('done', 'failed', 'cancelled') and updated_at < :before
    limit :most for update skip locked
)
delete from kranzq_items i using gone where i.seq = gone.seq
returning i.id;

-- name: counts
select state, count(*) as many from kranzq_items group by state;

-- name: oldest_open
select min(created_at) as oldest from kranzq_items where state in ('open', 'lapsed');

-- name: unseen_count
select count(*) as many from kranzq_items i
where i.state in ('open', 'lapsed') and i.target <> '*' and not exists (select 1 from kranzq_seen s where s.target = i.target);
