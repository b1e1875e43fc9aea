-- Many calls of one statement as one command: `NAME_many` is `NAME` for each object of the JSON list :many, whose keys are
-- its parameters. A row tells by `place`, counted from 1, whose it is. Of several calls for one item the first that fits
-- counts, whatever stale ones stand before it; the others find it done.

-- name: enqueue_many
with wanted as (
    select distinct on (v.id) v.* from rows from (json_to_recordset(cast(:many as json)) as (
        id text, title text, payload text, kind text, target text, target_agent text, target_agent_uid text,
        target_group text, priority integer, max_attempts integer, created_by text, created_by_uid text,
        not_before bigint, digest text)) with ordinality v (id, title, payload, kind, target, target_agent,
        target_agent_uid, target_group, priority, max_attempts, created_by, created_by_uid, not_before, digest, place)
    order by v.id, v.place
), made as (
    insert into kranzq_items (id, title, kind, target, target_agent, target_agent_uid, target_group, priority, state,
        max_attempts, created_by, created_by_uid, created_at, updated_at, not_before, digest)
    select id, title, kind, target, target_agent, target_agent_uid, target_group, priority,
        case when not_before > :wall then 'delayed' else 'open' end,
        max_attempts, created_by, created_by_uid, :wall, :wall, not_before, digest
    from wanted order by place
    on conflict (id) do nothing
    returning seq, id, state, created_at
), kept as (
    insert into kranzq_payloads (seq, payload) select m.seq, w.payload from made m join wanted w on w.id = m.id
)
select w.place, m.seq, m.state, m.created_at from made m join wanted w on w.id = m.id;

-- name: finish_many
with wanted as (
    select v.* from rows from (json_to_recordset(cast(:many as json)) as (
        id text, attempt integer, holder text, holder_uid text, state text, result text))
        with ordinality v (id, attempt, holder, holder_uid, state, result, place)
), fitting as (
    select distinct on (w.id) w.* from wanted w join kranzq_items i on i.id = w.id and i.attempts = w.attempt
    where i.state in ('claimed', 'lapsed')
      and case when i.claimed_by_uid <> '' and w.holder_uid <> '' then i.claimed_by_uid = w.holder_uid
          else lower(i.claimed_by collate "C") = lower(w.holder collate "C") end
    order by w.id, w.place
), over as (
    update kranzq_items k set state = w.state, result = w.result, claim_expires = null, updated_at = :wall
    from fitting w
    where k.id = w.id and k.attempts = w.attempt and k.state in ('claimed', 'lapsed')
      and case when k.claimed_by_uid <> '' and w.holder_uid <> '' then k.claimed_by_uid = w.holder_uid
          else lower(k.claimed_by collate "C") = lower(w.holder collate "C") end
    returning w.place, k.seq, k.attempts, k.claimed_by_uid, k.state
), noted as (
    update kranzq_attempts a set ended_at = :wall, ended = over.state, why = ''
    from over where a.seq = over.seq and a.attempt = over.attempts
)
select place, seq, attempts, claimed_by_uid, state from over;
