-- What a claim may do, and what becomes of one. Each statement is one command, so one way to the server and back, except
-- where its second half must see what others committed while the first one waited.
-- SKIP LOCKED stands inside each branch: to pick first and lock afterwards would give one item to two claimers.

-- name: is_due
select exists (select 1 from kranzq_items where state = 'claimed' and claim_expires <= :wall)
    or exists (select 1 from kranzq_items where state = 'delayed' and not_before <= :wall) as due;

-- name: lapse
with over as (
    select seq from kranzq_items
    where state = 'claimed' and claim_expires <= :wall
      and not exists (select 1 from kranzq_grace where boot = '' and until > :wall)
    order by claim_expires limit :most for update of kranzq_items skip locked
), moved as (
    update kranzq_items k set
        state = case when attempts - declined >= max_attempts then 'failed' else 'lapsed' end,
        result = case when attempts - declined >= max_attempts and result = '' then 'the last lease ran out' else result end,
        claim_expires = case when attempts - declined >= max_attempts then null else claim_expires end,
        updated_at = :wall
    from over where k.seq = over.seq
    returning k.seq, k.id, k.attempts, k.state
), noted as (
    update kranzq_attempts a set ended_at = :wall, ended = 'lapsed', why = 'its lease ran out'
    from moved where a.seq = moved.seq and a.attempt = moved.attempts
)
select seq, id, attempts, state, case when state = 'lapsed' then pg_notify('kranzq_work', '')::text end as told from moved;

-- name: open_due
with due as (
    select seq from kranzq_items where state = 'delayed' and not_before <= :wall
    order by not_before limit :most for update skip locked
), moved as (
    update kranzq_items k set state = 'open', updated_at = :wall from due where k.seq = due.seq
    returning k.id
)
select id, pg_notify('kranzq_work', '') as told from moved;

-- name: claim
with found as materialized (
    select i.seq from json_array_elements_text(cast(:targets as json)) t (value)
    cross join lateral (
        select j.seq, j.priority from kranzq_items j
        where j.state in ('open', 'lapsed') and j.target = t.value
        order by j.priority desc, j.seq limit :most for update skip locked) i
    order by i.priority desc, i.seq limit :most
), taken as (
    update kranzq_items k set state = 'claimed', claimed_by = :holder, claimed_by_uid = :holder_uid,
        claim_expires = :wall + :lease, attempts = attempts + 1, updated_at = :wall
    where k.seq = any (array(select seq from found))
    returning k.*
), noted as (
    insert into kranzq_attempts (seq, attempt, holder, holder_uid, request_id, claimed_at)
    select seq, attempts, :holder, :holder_uid, :request_id, :wall from taken
)
select taken.*, (select p.payload from kranzq_payloads p where p.seq = taken.seq) as payload
from taken order by priority desc, seq;

-- name: claim_kind
with found as materialized (
    select i.seq from json_array_elements_text(cast(:targets as json)) t (value)
    cross join lateral (
        select j.seq, j.priority from kranzq_items j
        where j.state in ('open', 'lapsed') and j.target = t.value and j.kind = :kind
        order by j.priority desc, j.seq limit :most for update skip locked) i
    order by i.priority desc, i.seq limit :most
), taken as (
    update kranzq_items k set state = 'claimed', claimed_by = :holder, claimed_by_uid = :holder_uid,
        claim_expires = :wall + :lease, attempts = attempts + 1, updated_at = :wall
    where k.seq = any (array(select seq from found))
    returning k.*
), noted as (
    insert into kranzq_attempts (seq, attempt, holder, holder_uid, request_id, claimed_at)
    select seq, attempts, :holder, :holder_uid, :request_id, :wall from taken
)
select taken.*, (select p.payload from kranzq_payloads p where p.seq = taken.seq) as payload
from taken order by priority desc, seq;

-- name: claim_named
with found as materialized (
    select i.seq from kranzq_items i
    where i.id = any (array(select n.value from json_array_elements_text(cast(:ids as json)) n (value)))
      and i.state in ('open', 'lapsed')
      and i.target = any (array(select t.value from json_array_elements_text(cast(:targets as json)) t (value)))
      and (:kind = '' or i.kind = :kind)
    order by i.priority desc, i.seq limit :most for update of i skip locked
), taken as (
    update kranzq_items k set state = 'claimed', claimed_by = :holder, claimed_by_uid = :holder_uid,
        claim_expires = :wall + :lease, attempts = attempts + 1, updated_at = :wall
    where k.seq = any (array(select seq from found))
    returning k.*
), noted as (
    insert into kranzq_attempts (seq, attempt, holder, holder_uid, request_id, claimed_at)
    select seq, attempts, :holder, :holder_uid, :request_id, :wall from taken
)
select taken.*, (select p.payload from kranzq_payloads p where p.seq = taken.seq) as payload
from taken order by priority desc, seq;

-- name: request_lock
-- Of two calls with one request id at once the second one waits, and then finds what the first one got.
select pg_advisory_xact_lock(hashtextextended('kranzq request ' || :request_id, 0));

-- name: claimed_before
with mine as (
    select i.seq from kranzq_attempts a join kranzq_items i on i.seq = a.seq and i.attempts = a.attempt
    where a.request_id = :request_id and a.request_id <> '' and i.state in ('claimed', 'lapsed')
      and case when a.holder_uid <> '' and :holder_uid <> '' then a.holder_uid = :holder_uid
          else lower(a.holder collate "C") = lower(:holder collate "C") end
    for update of i
), kept as (
    update kranzq_items k set state = 'claimed', claim_expires = :wall + :lease,
        updated_at = case when k.state = 'lapsed' then :wall else k.updated_at end
    from mine where k.seq = mine.seq
    returning k.*
), noted as (
    update kranzq_attempts a set ended_at = null, ended = null, why = ''
    from kept where a.seq = kept.seq and a.attempt = kept.attempts
)
select kept.*, p.payload from kept join kranzq_payloads p on p.seq = kept.seq order by kept.priority desc, kept.seq;

-- name: heartbeat
with mine as (
    select seq, state, attempts from kranzq_items
    where id = :id and attempts = :attempt and state in ('claimed', 'lapsed')
      and case when claimed_by_uid <> '' and :holder_uid <> '' then claimed_by_uid = :holder_uid
          else lower(claimed_by collate "C") = lower(:holder collate "C") end
    for update
), kept as (
    update kranzq_items k set state = 'claimed', claim_expires = :wall + :lease,
        updated_at = case when k.state = 'lapsed' then :wall else k.updated_at end
    from mine where k.seq = mine.seq
    returning k.*
), noted as (
    update kranzq_attempts a set ended_at = null, ended = null, why = ''
    from mine where mine.state = 'lapsed' and a.seq = mine.seq and a.attempt = mine.attempts
)
select kept.*, p.payload from kept join kranzq_payloads p on p.seq = kept.seq;

-- name: finish
with over as (
    update kranzq_items set state = :state, result = :result, claim_expires = null, updated_at = :wall
    where id = :id and attempts = :attempt and state in ('claimed', 'lapsed')
      and case when claimed_by_uid <> '' and :holder_uid <> '' then claimed_by_uid = :holder_uid
          else lower(claimed_by collate "C") = lower(:holder collate "C") end
    returning seq, attempts, claimed_by_uid, state
), noted as (
    update kranzq_attempts a set ended_at = :wall, ended = :state, why = ''
    from over where a.seq = over.seq and a.attempt = over.attempts
)
select seq, attempts, claimed_by_uid, state from over;

-- name: release
with back as (
    update kranzq_items set
        state = case when attempts - declined - :declined >= max_attempts then 'failed'
            when :delay > 0 then 'delayed' else 'open' end,
        not_before = case when :delay > 0 then :wall + :delay else not_before end,
        declined = declined + :declined, claimed_by = '', claimed_by_uid = '', claim_expires = null, result = :why,
        updated_at = :wall
    where id = :id and attempts = :attempt and state in ('claimed', 'lapsed')
      and case when claimed_by_uid <> '' and :holder_uid <> '' then claimed_by_uid = :holder_uid
          else lower(claimed_by collate "C") = lower(:holder collate "C") end
    returning seq, attempts, state
), noted as (
    update kranzq_attempts a set
        ended_at = :wall, ended = case when :declined > 0 then 'declined' else 'released' end, why = :why
    from back where a.seq = back.seq and a.attempt = back.attempts
)
select seq, attempts, state from back;

-- name: cancel
update kranzq_items set state = 'cancelled', claimed_by = '', claimed_by_uid = '', claim_expires = null, result = :why,
    updated_at = :wall
where id = :id and state not in ('done', 'failed', 'cancelled')
returning seq, attempts, state;
update kranzq_attempts set ended_at = :wall, ended = 'cancelled', why = :why
where seq = :seq and attempt = :attempts and (ended is null or ended = 'lapsed');

-- name: standing
select i.state, i.attempts, i.claimed_by, i.claimed_by_uid, i.result, a.holder, a.holder_uid, a.ended, a.why
from kranzq_items i left join kranzq_attempts a on a.seq = i.seq and a.attempt = :attempt where i.id = :id;

-- name: overdue
select count(*) as many from kranzq_items where state = 'claimed' and claim_expires <= :wall;

-- name: grace
insert into kranzq_grace (boot, until) values ('', :wall + :grace)
on conflict (boot) do update set until = greatest(kranzq_grace.until, excluded.until);
