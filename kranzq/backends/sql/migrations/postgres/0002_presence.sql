-- Who says that they work on what. Times are wall milliseconds. `holder` and `subject` are keys: one row for each pair.

create table kranzq_presence (
    id text collate "C" primary key,
    holder text collate "C" not null,
    subject text collate "C" not null,
    agent text not null,
    agent_uid text not null,
    channel text not null,
    repo text,
    tail text collate "C",
    path text,
    absolute_path text,
    branch text collate "C",
    topic text,
    home text,
    note text not null,
    created_at bigint not null,
    expires_at bigint not null
);

create unique index kranzq_presence_once on kranzq_presence (holder, subject);
create index kranzq_presence_ends on kranzq_presence (expires_at);
create index kranzq_presence_tail on kranzq_presence (tail, expires_at) where tail is not null;
create index kranzq_presence_branch on kranzq_presence (branch, expires_at) where branch is not null;
create index kranzq_presence_absolute on kranzq_presence (expires_at) where absolute_path is not null;
