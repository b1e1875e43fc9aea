-- Who may call a server. Of a token only its hash is kept. `folded` is the name as it is compared; times are wall ms.

create table kranzq_agents (
    uid text primary key,
    name text not null,
    folded text not null,
    token_hash text not null,
    groups text not null,
    scopes text not null,
    expires_at integer,
    created_at integer not null,
    rotated_at integer
) strict, without rowid;

create unique index kranzq_agents_token on kranzq_agents (token_hash);
create index kranzq_agents_named on kranzq_agents (folded);
