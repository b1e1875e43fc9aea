/* The lease protocol of the work queue: one item among three agents and a store, kranzq/backends/sql.
 *
 * An act of the store is one transaction, so one step: the statement of that name in statements/postgres/claims.sql
 * and statements/sqlite/claims.sql. A call is sent, carried out at any later time, even when its sender is dead by
 * then, and answered. An answer can be lost, with the connection or a server that is killed after its commit; then the
 * same call is sent again, and the first one may still be under way. A killed agent is started anew and has forgotten
 * everything.
 *
 * Sizes: KILLS of agents, LOSSES of answers, MOST (max_attempts), DECLINES, CANCELS. Rules: -DNO_… takes one away.
 */
#ifndef KILLS
#define KILLS 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef MOST
#define MOST 2
#endif
#ifndef DECLINES
#define DECLINES 1
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#define AGENTS 3
#define CLAIMS (MOST + DECLINES + 1)
#define NOBODY 9

/* kranzq_items */
#define OPEN 0
#define CLAIMED 1
#define LAPSED 2
#define DONE 3
#define FAILED 4
#define CANCELLED 5
byte state;
byte attempts;
byte declined;
byte holder = NOBODY;
bool overdue; /* claim_expires <= the clock of the store */
#define OVER (state >= DONE)
#define HELD (state == CLAIMED || state == LAPSED)
/* kranzq_attempts: whose an attempt was and how it ended; the request of the newest one */
#define RUNNING 0
#define RELEASED 1
#define DECLINED 2
#define BY_LAPSE 3
#define BY_CANCEL 4
#define FINISHED 5
byte ended[CLAIMS + 1];
byte whose[CLAIMS + 1];
byte request_life, request_number;

/* A call that an agent has sent, and one that it, or the process before it, no longer waits for. */
#define NOTHING 0
#define CLAIM 1
#define BEAT 2
#define FINISH 3
#define RELEASE 4
#define DECLINE 5
byte call[AGENTS], shown[AGENTS];
byte late_call[AGENTS], late_shown[AGENTS], late_life[AGENTS], late_number[AGENTS];
#define NO_ANSWER 0
#define YES 1
#define NO 2
#define LOST 3
byte answer[AGENTS], given[AGENTS];
byte life[AGENTS], number[AGENTS];
bool killed[AGENTS];

byte asked; /* agents are alike, so the first to ask is agent 0, the next agent 1 */

/* What truly happened: the how-manieth claim of the item stands, which one finished it, and which one a call means. */
byte claims, stands, finisher;
byte meant[AGENTS], late_meant[AGENTS], given_claim[AGENTS];
bool lapsed_early;
byte kills = KILLS;
byte losses = LOSSES;
byte declines = DECLINES;
byte cancels = CANCELS;

#ifdef NO_STATE_CHECK
#define MAY_CHANGE true
#else
#define MAY_CHANGE HELD
#endif
#ifdef NO_FENCE
#define BELIEVED(a, attempt) (MAY_CHANGE && holder == a)
#else
#define BELIEVED(a, attempt) (MAY_CHANGE && holder == a && attempts == attempt)
#endif
#ifdef NO_LEASE_CHECK
#define IS_OVERDUE true
#else
#define IS_OVERDUE overdue
#endif
#ifdef NO_REQUEST_ID
#define GIVEN_BEFORE(a, l, m) false
#else
#define GIVEN_BEFORE(a, l, m) (HELD && holder == a && request_life == l && request_number == m)
#endif

/* lapse: the holder stays, and is believed until another one claims */
inline lapse() {
    if
    :: state == CLAIMED && IS_OVERDUE ->
        lapsed_early = !overdue;
        state = (attempts - declined >= MOST -> FAILED : LAPSED);
        ended[attempts] = BY_LAPSE
    :: else
    fi
}

inline give(a, l, m) {
    assert(!lapsed_early); /* nobody loses an item while its lease lasts */
    attempts++;
    state = CLAIMED; holder = a; overdue = false;
    request_life = l; request_number = m;
    ended[attempts] = RUNNING; whose[attempts] = a;
    claims++; stands = claims
}

inline check(claim) {
    assert(!OVER);           /* what has ended stays so: an item is finished once */
    assert(stands == claim)  /* a stale holder changes nothing */
}

/* One call, one transaction; `yes` is the answer. `claim` is the claim that is meant. */
inline carry_out(what, attempt, a, l, m, claim) {
    yes = false;
    if
    :: what == CLAIM ->
        lapse();
        if
        :: GIVEN_BEFORE(a, l, m) -> /* claimed_before */
            state = CLAIMED; overdue = false; lapsed_early = false; ended[attempts] = RUNNING; yes = true
        :: (state == OPEN || state == LAPSED) && !GIVEN_BEFORE(a, l, m) -> give(a, l, m); yes = true
        :: else -> /* what was given is told */
            assert(!(state == CLAIMED && holder == a && request_life == l && request_number == m))
        fi
    :: what == BEAT && BELIEVED(a, attempt) ->
        check(claim); state = CLAIMED; overdue = false; lapsed_early = false; ended[attempt] = RUNNING; yes = true
    :: what == FINISH && BELIEVED(a, attempt) ->
        check(claim); state = DONE; ended[attempt] = FINISHED; finisher = claim; yes = true
    :: what >= RELEASE && BELIEVED(a, attempt) ->
        check(claim);
#ifdef NO_GROWING_ATTEMPTS
        attempts = attempts - (what == DECLINE);
        state = (attempts >= MOST -> FAILED : OPEN);
#else
        declined = declined + (what == DECLINE);
        state = (attempts - declined >= MOST -> FAILED : OPEN);
#endif
        holder = NOBODY; overdue = false; lapsed_early = false; stands = 0;
        ended[attempt] = (what == DECLINE -> DECLINED : RELEASED);
        yes = true
    :: else ->
#ifndef NO_SAME_END_AGAIN
        /* kranzq/backends/sql/claims.py (_ended_so, release): the same end again is a success that changes nothing */
        yes = (whose[attempt] == a && (
            (what == FINISH && ended[attempt] == FINISHED && state == DONE) ||
            (what == RELEASE && ended[attempt] == RELEASED) || (what == DECLINE && ended[attempt] == DECLINED)));
#endif
        assert(yes || what != FINISH || finisher != claim); /* who has finished it is told so */
        assert(yes || what == CLAIM || OVER || stands != claim)   /* who holds it is not refused */
    fi
}

#define SERVE(a) \
    :: atomic { call[a] != NOTHING && answer[a] == NO_ANSWER -> \
        carry_out(call[a], shown[a], a, life[a], number[a], meant[a]); \
        given[a] = (call[a] == CLAIM && yes -> attempts : 0); \
        given_claim[a] = (call[a] == CLAIM && yes -> stands : 0); \
        if \
        :: answer[a] = (yes -> YES : NO) \
        :: losses > 0 -> losses--; answer[a] = LOST; given[a] = 0; given_claim[a] = 0 \
        fi; yes = false } \
    :: atomic { call[a] != NOTHING && answer[a] == NO_ANSWER && losses > 0 && late_call[a] == NOTHING -> \
        losses--; answer[a] = LOST; be_late(a) } \
    :: atomic { late_call[a] != NOTHING -> \
        carry_out(late_call[a], late_shown[a], a, late_life[a], late_number[a], late_meant[a]); \
        forget_late(a); yes = false }

inline be_late(a) {
    late_call[a] = call[a]; late_shown[a] = shown[a]; late_life[a] = life[a];
    late_number[a] = number[a]; late_meant[a] = meant[a]
}
inline forget_late(a) {
    late_call[a] = NOTHING; late_shown[a] = 0; late_life[a] = 0; late_number[a] = 0; late_meant[a] = 0
}

proctype Store() {
    bool yes;
    bool picked;
    do
    SERVE(0)
    SERVE(1)
    SERVE(2)
    :: atomic { state == CLAIMED && IS_OVERDUE -> lapse() }      /* the sweep on a timer: kranzq/leases/sweeper.py */
    :: atomic { state == CLAIMED && !overdue -> overdue = true } /* time passes */
    :: atomic { cancels > 0 && !OVER ->                          /* cancel */
        cancels--;
        state = CANCELLED; holder = NOBODY; stands = 0; overdue = false; lapsed_early = false;
        ended[attempts] = (ended[attempts] == RUNNING || ended[attempts] == BY_LAPSE -> BY_CANCEL : ended[attempts]) }
#ifdef NO_ONE_STATEMENT
    /* the item is picked first and taken afterwards: by then it may be another one's */
    :: atomic { !picked && (state == OPEN || state == LAPSED) && call[0] == CLAIM && answer[0] == NO_ANSWER ->
        picked = true }
    :: atomic { picked && call[0] == CLAIM && answer[0] == NO_ANSWER ->
        picked = false;
        check(stands);
        lapsed_early = lapsed_early || (state == CLAIMED && !overdue);
        give(0, life[0], number[0]); given[0] = attempts; given_claim[0] = stands; answer[0] = YES }
#endif
    od
}

inline go_on(a) {
    answer[a] = NO_ANSWER; shown[a] = mine; meant[a] = claim;
    if
    :: call[a] = BEAT
    :: call[a] = FINISH
    :: call[a] = RELEASE
    :: declines > 0 -> declines--; call[a] = DECLINE
    fi
}

/* kranzq/agents/worker.py, or any client: claim, keep, end; what got no answer is sent again. */
proctype Agent(byte a) {
    byte mine, claim;
again:
    {
        atomic { a <= asked && (state == OPEN || state == LAPSED || (state == CLAIMED && overdue)) ->
            call[a] = CLAIM; asked = (a == asked -> a + 1 : asked) };
claiming:
        atomic {
            answer[a] != NO_ANSWER ->
            if
            :: answer[a] == LOST -> answer[a] = NO_ANSWER; goto claiming
            :: answer[a] == NO -> call[a] = NOTHING; answer[a] = NO_ANSWER; goto again
            :: answer[a] == YES ->
                mine = given[a]; claim = given_claim[a]; number[a]++;
                given[a] = 0; given_claim[a] = 0; go_on(a)
            fi
        };
working:
        atomic {
            answer[a] != NO_ANSWER ->
            if
            :: answer[a] == LOST -> answer[a] = NO_ANSWER; goto working
            :: answer[a] == YES && call[a] == BEAT -> go_on(a); goto working
            :: answer[a] == NO || (answer[a] == YES && call[a] != BEAT) ->
                answer[a] = NO_ANSWER; call[a] = NOTHING; shown[a] = 0; meant[a] = 0; mine = 0; claim = 0; goto again
            fi
        }
    } unless { killed[a] };
    atomic { killed[a] = false; mine = 0; claim = 0 };
    goto again
}

/* SIGKILL of an agent: what it has sent may still arrive. */
#define STRIKE(a) \
    :: atomic { kills > 0 && !OVER && (call[a] != NOTHING || stands != 0) -> \
        kills--; killed[a] = true; \
        if \
        :: call[a] != NOTHING && answer[a] == NO_ANSWER && late_call[a] == NOTHING -> be_late(a) \
        :: true \
        fi; \
        call[a] = NOTHING; shown[a] = 0; meant[a] = 0; answer[a] = NO_ANSWER; given[a] = 0; given_claim[a] = 0; \
        life[a]++; number[a] = 0 }

proctype World() {
    do
    STRIKE(0)
    STRIKE(1)
    STRIKE(2)
    od
}

/* When nothing moves any more the item has ended: nothing is lost. */
proctype Rest() {
    timeout -> d_step {
#ifdef NEVER_AT_REST
        assert(false); /* must be found: else the promise below would be empty */
#endif
        assert(OVER)
    }
}

init { atomic { run Store(); run Agent(0); run Agent(1); run Agent(2); run World(); run Rest() } }
