-- Agents come, get other tokens and go. One rule of expiry: a token opens while expires_at is none or > kranzq_now().

-- Two that add the same name see each other; readers wait for nobody.
-- name: agents_lock
lock table kranzq_agents in share row exclusive mode;

-- Whoever stands in the way of a new one: the same name, the same uid, or one taken for the other.
-- name: agents_like
select *, coalesce(expires_at <= kranzq_now(), false) as expired from kranzq_agents
where folded = :folded or uid = :uid or uid = :name or folded = :folded_uid order by created_at, uid;

-- name: agent_add
insert into kranzq_agents (uid, name, folded, token_hash, groups, scopes, expires_at, created_at)
values (:uid, :name, :folded, :token_hash, :groups, :scopes,
    case when :life = 0 then null else kranzq_now() + :life end, kranzq_now())
returning *, false as expired;

-- name: agents_all
select *, coalesce(expires_at <= kranzq_now(), false) as expired from kranzq_agents order by folded, created_at, uid;

-- name: agents_named
select *, coalesce(expires_at <= kranzq_now(), false) as expired from kranzq_agents where folded = :folded order by created_at, uid;

-- name: agents_found
select *, coalesce(expires_at <= kranzq_now(), false) as expired from kranzq_agents
where uid = :uid or folded = :folded order by created_at, uid;

-- name: agents_by_token
select *, false as expired from kranzq_agents
where token_hash = any (array(select h.value from json_array_elements_text(cast(:hashes as json)) h (value)))
  and (expires_at is null or expires_at > kranzq_now());

-- :life is -1 to keep the end, 0 for none.
-- name: agent_rotate
update kranzq_agents set token_hash = :token_hash, rotated_at = kranzq_now(),
    expires_at = case when :life < 0 then expires_at when :life = 0 then null else kranzq_now() + :life end
where uid = :uid returning *, false as expired;

-- name: agent_revoke
delete from kranzq_agents where uid = :uid
returning *, coalesce(expires_at <= kranzq_now(), false) as expired;

-- name: agent_seen
select 1 as seen from kranzq_seen where target = :target;
