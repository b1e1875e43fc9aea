-- What has changed, by the index of newest changes, and what there is. Payloads and results are not read.

-- name: clock
select :wall as wall;

-- name: changed
select seq, state, attempts, updated_at from kranzq_items
where state in ('open', 'delayed', 'claimed', 'lapsed', 'done', 'failed', 'cancelled')
  and updated_at >= :since and updated_at <= :wall + :span
limit :most;

-- name: changed_rows
select i.seq, i.id, i.title, '' as payload, i.kind, i.target_agent, i.target_agent_uid, i.target_group, i.priority, i.state,
    i.claimed_by, i.claimed_by_uid, i.claim_expires, i.attempts, i.declined, i.max_attempts, i.created_by, i.created_by_uid,
    i.created_at, i.updated_at, i.not_before, '' as result
from json_array_elements_text(cast(:seqs as json)) w (value)
join kranzq_items i on i.seq = cast(w.value as bigint)
order by i.updated_at, i.seq;

-- name: depths
select state, kind, count(*) as many from kranzq_items
where state in ('open', 'delayed', 'claimed', 'lapsed') group by state, kind order by many desc;
