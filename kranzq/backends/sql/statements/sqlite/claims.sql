-- What a claim may do, and what becomes of one. Each command after the first runs once for each row of the first,
-- with that row's columns as further parameters. :boot and :now are the boot and its clock, :wall is the wall clock.

-- name: is_due
select exists (select 1 from kranzq_items indexed by kranzq_leases where state = 'claimed' and lease_boot = :boot and lease_ends <= :now)
    or exists (select 1 from kranzq_items indexed by kranzq_leases where state = 'claimed' and lease_boot < :boot)
    or exists (select 1 from kranzq_items indexed by kranzq_leases where state = 'claimed' and lease_boot > :boot)
    or exists (select 1 from kranzq_items indexed by kranzq_due where state = 'delayed' and not_before <= :wall) as due;

-- name: lapse
update kranzq_items set
    state = case when attempts - declined >= max_attempts then 'failed' else 'lapsed' end,
    result = case when attempts - declined >= max_attempts and result = '' then 'the last lease ran out' else result end,
    claim_expires = case when attempts - declined >= max_attempts then null else claim_expires end,
    updated_at = :wall
where seq in (
    select seq from (
        select seq from kranzq_items indexed by kranzq_leases where state = 'claimed' and lease_boot = :boot and lease_ends <= :now
        union all select seq from kranzq_items indexed by kranzq_leases where state = 'claimed' and lease_boot < :boot
        union all select seq from kranzq_items indexed by kranzq_leases where state = 'claimed' and lease_boot > :boot)
    limit :most)
  and not exists (select 1 from kranzq_grace where boot = :boot and until > :now)
returning seq, id, attempts, state;
update kranzq_attempts set ended_at = :wall, ended = 'lapsed', why = 'its lease ran out' where seq = :seq and attempt = :attempts;

-- name: open_due
update kranzq_items set state = 'open', updated_at = :wall
where seq in (select seq from kranzq_items indexed by kranzq_due where state = 'delayed' and not_before <= :wall order by not_before limit :most)
returning id;

-- name: claim
update kranzq_items set state = 'claimed', claimed_by = :holder, claimed_by_uid = :holder_uid,
    claim_expires = :wall + :lease, lease_boot = :boot, lease_ends = :now + :lease, attempts = attempts + 1, updated_at = :wall
where seq = (
    select i.seq from json_each(:targets) t join kranzq_items i on i.seq = (
        select j.seq from kranzq_items j indexed by kranzq_ready where j.state in ('open', 'lapsed') and j.target = t.value
        order by j.priority desc, j.seq limit 1)
    order by i.priority desc, i.seq limit 1)
returning *, (select payload from kranzq_payloads p where p.seq = kranzq_items.seq) as payload;
insert into kranzq_attempts (seq, attempt, holder, holder_uid, request_id, claimed_at)
values (:seq, :attempts, :holder, :holder_uid, :request_id, :wall);

-- name: claim_kind
update kranzq_items set state = 'claimed', claimed_by = :holder, claimed_by_uid = :holder_uid,
    claim_expires = :wall + :lease, lease_boot = :boot, lease_ends = :now + :lease, attempts = attempts + 1, updated_at = :wall
where seq = (
    select i.seq from json_each(:targets) t join kranzq_items i on i.seq = (
        select j.seq from kranzq_items j indexed by kranzq_ready_kind
        where j.state in ('open', 'lapsed') and j.target = t.value and j.kind = :kind
        order by j.priority desc, j.seq limit 1)
    order by i.priority desc, i.seq limit 1)
returning *, (select payload from kranzq_payloads p where p.seq = kranzq_items.seq) as payload;
insert into kranzq_attempts (seq, attempt, holder, holder_uid, request_id, claimed_at)
values (:seq, :attempts, :holder, :holder_uid, :request_id, :wall);

-- name: claim_named
update kranzq_items set state = 'claimed', claimed_by = :holder, claimed_by_uid = :holder_uid,
    claim_expires = :wall + :lease, lease_boot = :boot, lease_ends = :now + :lease, attempts = attempts + 1, updated_at = :wall
where seq = (
    select i.seq from json_each(:ids) n join kranzq_items i on i.id = n.value
    where i.state in ('open', 'lapsed') and i.target in (select t.value from json_each(:targets) t)
      and (:kind = '' or i.kind = :kind)
    order by i.priority desc, i.seq limit 1)
returning *, (select payload from kranzq_payloads p where p.seq = kranzq_items.seq) as payload;
insert into kranzq_attempts (seq, attempt, holder, holder_uid, request_id, claimed_at)
values (:seq, :attempts, :holder, :holder_uid, :request_id, :wall);

-- name: request_lock
select :request_id as waits_for_nobody;

-- name: claimed_before
update kranzq_items set state = 'claimed', claim_expires = :wall + :lease, lease_boot = :boot, lease_ends = :now + :lease,
    updated_at = case when state = 'lapsed' then :wall else updated_at end
where seq in (
    select i.seq from kranzq_attempts a join kranzq_items i on i.seq = a.seq and i.attempts = a.attempt
    where a.request_id = :request_id and a.request_id <> '' and i.state in ('claimed', 'lapsed')
      and case when a.holder_uid <> '' and :holder_uid <> '' then a.holder_uid = :holder_uid
          else lower(a.holder) = lower(:holder) end
    limit 1)
returning *, (select payload from kranzq_payloads p where p.seq = kranzq_items.seq) as payload;
update kranzq_attempts set ended_at = null, ended = null, why = '' where seq = :seq and attempt = :attempts;

-- name: heartbeat
update kranzq_items set state = 'claimed', claim_expires = :wall + :lease, lease_boot = :boot, lease_ends = :now + :lease,
    updated_at = case when state = 'lapsed' then :wall else updated_at end
where id = :id and attempts = :attempt and state in ('claimed', 'lapsed')
  and case when claimed_by_uid <> '' and :holder_uid <> '' then claimed_by_uid = :holder_uid
      else lower(claimed_by) = lower(:holder) end
returning *, (select payload from kranzq_payloads p where p.seq = kranzq_items.seq) as payload;
update kranzq_attempts set ended_at = null, ended = null, why = ''
where seq = :seq and attempt = :attempts and ended is not null;

-- name: finish
update kranzq_items set state = :state, result = :result, claim_expires = null, updated_at = :wall
where id = :id and attempts = :attempt and state in ('claimed', 'lapsed')
  and case when claimed_by_uid <> '' and :holder_uid <> '' then claimed_by_uid = :holder_uid
      else lower(claimed_by) = lower(:holder) end
returning seq, attempts, claimed_by_uid, state;
update kranzq_attempts set ended_at = :wall, ended = :state, why = '' where seq = :seq and attempt = :attempts;

-- name: release
update kranzq_items set
    state = case when attempts - declined - :declined >= max_attempts then 'failed'
        when :delay > 0 then 'delayed' else 'open' end,
    not_before = case when :delay > 0 then :wall + :delay else not_before end, declined = declined + :declined, claimed_by = '', claimed_by_uid = '', claim_expires = null, result = :why,
    updated_at = :wall
where id = :id and attempts = :attempt and state in ('claimed', 'lapsed')
  and case when claimed_by_uid <> '' and :holder_uid <> '' then claimed_by_uid = :holder_uid
      else lower(claimed_by) = lower(:holder) end
returning seq, attempts, state;
update kranzq_attempts set ended_at = :wall, ended = case when :declined then 'declined' else 'released' end, why = :why
where seq = :seq and attempt = :attempts;

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
select count(*) as many from kranzq_items where state = 'claimed' and (lease_boot <> :boot or lease_ends <= :now);

-- name: grace
insert into kranzq_grace (boot, until) values (:boot, :now + :grace)
on conflict (boot) do update set until = max(until, excluded.until);
