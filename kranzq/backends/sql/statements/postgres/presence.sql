-- Presence claims come, are renewed, are shown and go. Every reader has the same rule: expires_at > kranzq_now().

-- name: presence_lock
-- Two puts of one holder at once would each count without the other's claim.
select pg_advisory_xact_lock(hashtextextended('kranzq presence ' || :holder, 0));

-- name: presence_put
insert into kranzq_presence (id, holder, subject, agent, agent_uid, channel, repo, tail, path, absolute_path, branch,
    topic, home, note, created_at, expires_at)
select :id, :holder, :subject, :agent, :agent_uid, :channel, :repo, :tail, :path, :absolute_path, :branch,
    :topic, :home, :note, kranzq_now(), kranzq_now() + :lifetime
where (select count(*) from kranzq_presence p where p.holder = :holder and p.expires_at > kranzq_now()) < :most
   or exists (select 1 from kranzq_presence p
       where p.holder = :holder and p.subject = :subject and p.expires_at > kranzq_now())
on conflict (holder, subject) do update set
    id = case when kranzq_presence.expires_at > kranzq_now() then kranzq_presence.id else excluded.id end,
    created_at = case when kranzq_presence.expires_at > kranzq_now() then kranzq_presence.created_at else excluded.created_at end,
    agent = excluded.agent, agent_uid = excluded.agent_uid, channel = excluded.channel, topic = excluded.topic,
    home = excluded.home, note = excluded.note, expires_at = excluded.expires_at
returning *;

-- name: presence_live
select * from kranzq_presence where expires_at > kranzq_now() order by created_at, id;

-- name: presence_about
select * from kranzq_presence where tail = :tail and expires_at > kranzq_now()
union select * from kranzq_presence where branch = :branch and expires_at > kranzq_now()
union select * from kranzq_presence where :absolute = 1 and absolute_path is not null and expires_at > kranzq_now()
union select * from kranzq_presence where :words = 1 and expires_at > kranzq_now()
order by created_at, id;

-- name: presence_release
delete from kranzq_presence where holder = :holder and (:every = 1 or id = :id) and expires_at > kranzq_now() returning *;

-- Rows that somebody renews at this moment are left alone. As a subquery of `in` the limit could count for each row anew.
-- name: presence_purge
with gone as materialized (
    select id from kranzq_presence where expires_at <= kranzq_now() order by expires_at limit :most for update skip locked
)
delete from kranzq_presence p using gone where p.id = gone.id;
