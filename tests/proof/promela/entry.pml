/* The file protocol: an entry from its approval to its end, under kills at any instant.
 *
 * Two dispatchers (programs 0 and 1) and a third program (2) that recovers, edits and enqueues, ACTS times. A step is
 * one system call of the product, or several that nobody can come between, and the comment beside it names the module.
 * What is killed loses its memory, its locks and its sockets; files stay; a killed dispatcher is started anew. A try
 * has a slot `s` in each array: its keeper, its claim, its records. lock.pml has the two halves of the busy lock.
 *
 * Sizes: KILLS of any program or keeper, CUTS of power, LIVES (approvals of the mission), ACTS.
 * Scenes: TWO_SPACES, dispatcher 1 and its keepers live in another pid namespace than the others. ELSEWHERE, program 2
 * lives on another machine and can judge no process here. Rules: each -DNO_… takes one away, and the model must fail.
 */
#ifndef KILLS
#define KILLS 1
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef LIVES
#define LIVES 1
#endif
#ifndef ACTS
#define ACTS 1
#endif
#ifndef RUNS
#define RUNS (LIVES + KILLS + CUTS + LIVES - 1) /* each kill, cut and edit costs one try at most */
#endif
#define NOBODY 7

/* .kranz/queue: which life of the entry lies under its own name, and under the claimed name of each try. 0: none. */
byte entry = 1;
byte claim[RUNS];
#if CUTS > 0
/* What a power cut may bring back under the entry's name: a claim, and what follows it, are not synced. */
byte durable = 1;
#define SYNCED(life) durable = life
#else
#define SYNCED(life) skip
#endif

/* run.json and exit.json: kranzq/runs/record.py. `taken` is the entry that a record names, and that the keeper runs. */
#define NO_RECORD 0
#define CLAIMING 1
#define STARTING 2
#define ENDED 3
byte record[RUNS];
byte taken[RUNS];
#define RETIRE 1
#define RETURN 2
byte fate[RUNS];
bool exit_json[RUNS];
bool complete[RUNS];

/* kranzq/keeper.py */
#define NONE 0
#define WAITS 1
#define CALLED 2 /* *go* is on its way, the locks with it */
#define TOLD 3
#define KEEPS 4
#define MISSION 5
#define RECORDED 6
#define GONE 7
byte keeper[RUNS];
byte by[RUNS];       /* the dispatcher that started it, whose namespace it lives in */
bool attended[RUNS]; /* whether the other end of its socket is open */
#define LIVING(s) (keeper[s] != NONE && keeper[s] != GONE)
#define SAYS_ALIVE(s) (keeper[s] >= KEEPS && keeper[s] != GONE)

/* The processes of a mission. They bear the mark in their environment and hold the lock; some lose one of the two. */
#define BOTH 1
#define LOCK_ONLY 2
#define MARK_ONLY 3
byte tree[RUNS];
#define MARKED(s) (tree[s] == BOTH || tree[s] == MARK_ONLY)

/* The busy lock, kranzq/busy/lock.py: all who have a descriptor that holds it, and who took it. */
#define D(i) (1 << (i))
#define K(s) (4 << (s))
#define T(s) (128 << (s))
short holders;
byte taker = NOBODY;
bool busy_json;

/* .mutate.flock, kranzq/backends/file/change.py: what stands TOGETHER is done under it, and nobody comes between. */
byte mutate = NOBODY;
#ifdef NO_MUTATE_LOCK
#define TOGETHER
#define LOCK_NAMES(i) skip
#define UNLOCK_NAMES skip
#else
#define TOGETHER atomic
#define LOCK_NAMES(i) mutate == NOBODY -> mutate = i
#define UNLOCK_NAMES mutate = NOBODY
#endif

/* What truly happened. No program reads it; the promises are said in its terms. */
bool done[LIVES + 1];
bool withdrawn[LIVES + 1];
bool began[RUNS];

byte lives = 1;
byte runs;
byte kills = KILLS;
byte cuts = CUTS;
bool killed[3];
bool at_work[3];
bool look_again[2];
#define CHANGED look_again[0] = true; look_again[1] = true

#ifdef NO_START_IN_NAME
/* A claim's name has the number alone, and the lowest that is free is given out again. */
byte number[RUNS];
#endif
#ifdef NO_START_TICKS
/* A later process has the keeper's number, and nothing else tells the two apart. */
bool reused[RUNS];
#define LIVES_BY_PID(s) (LIVING(s) || reused[s])
#else
#define LIVES_BY_PID(s) LIVING(s)
#endif

#ifdef TWO_SPACES
#define SPACE(i) ((i) == 1)
#else
#define SPACE(i) 0
#endif
#ifdef ELSEWHERE
#define SEEN(i, s) ((i) != 2)
#else
#define SEEN(i, s) (SPACE(i) == SPACE(by[s]))
#endif

/* Is the holder of a claim gone? kranzq/dispatch/evidence.py, kranzq/liveness. A record says that a keeper is of
 * another namespace (then the busy lock tells) or machine (then an hour without a touch does). Without a record the
 * name is all there is, and its number means nobody here. */
#ifdef NO_LOCK_ABOUT_OTHERS
#define BY_LOCK(in_hand) true
#else
#define BY_LOCK(in_hand) (in_hand)
#endif
#ifdef ELSEWHERE
bool old[RUNS];
#define JUDGED_GONE(i, s, in_hand) ((i) == 2 -> (record[s] == NO_RECORD || old[s]) : !LIVES_BY_PID(s))
#else
#define JUDGED_GONE(i, s, in_hand) \
    (SEEN(i, s) -> !LIVES_BY_PID(s) : (record[s] == NO_RECORD || BY_LOCK(in_hand)))
#endif

#define TAKE(what, from) what = from; from = 0

inline one_place() {
    /* the mission has one entry, in one place */
    n = (entry != 0);
    for (r2 : 0 .. RUNS - 1) { n = n + (claim[r2] != 0) };
    assert(n <= 1);
    n = 0; r2 = 0
}

inline end_tree(s) { tree[s] = 0; holders = holders & ~T(s); taker = (holders == 0 -> NOBODY : taker); CHANGED }

/* Steps 9 and 10, whoever does them: kranzq/dispatch/settle.py. A recorded fate is taken, else one is decided and
 * recorded (synced), and only then carried out. The claim must still be there. */
inline settle(i, s, read_end, told) {
    TOGETHER {
        LOCK_NAMES(i);
        if
        :: claim[s] != 0 && record[s] == ENDED
        :: claim[s] != 0 && record[s] == NO_RECORD -> fate[s] = RETURN
        :: claim[s] != 0 && record[s] != ENDED && record[s] != NO_RECORD ->
            end = read_end;
            d_step {
                assert(end || record[s] != CLAIMING || !began[s]); /* what began is not told as never begun */
                fate[s] = (end -> RETIRE : RETURN);
                record[s] = ENDED
            }
        :: claim[s] == 0 -> /* settle_without_claim: how it ended, if that is known, is kept */
            d_step {
                if
                :: record[s] != ENDED && (exit_json[s] || told) -> record[s] = ENDED; fate[s] = RETIRE
                :: else
                fi
            }
        fi
    };
    /* kranzq/backends/file/fates.py: one unlink or one rename */
    d_step {
        if
        :: claim[s] == 0
        :: claim[s] != 0 && fate[s] == RETIRE -> assert(done[claim[s]]); claim[s] = 0; CHANGED /* nothing is lost */
        :: claim[s] != 0 && fate[s] == RETURN ->
            assert(entry == 0);
            TAKE(entry, claim[s]); CHANGED
        fi;
        one_place();
        end = false;
        UNLOCK_NAMES
    }
}

#ifdef NO_READ_AFTER_DEATH
#define READ_END(s) early
#else
#define READ_END(s) exit_json[s]
#endif

inline find_claim() {
    r = 0;
    do
    :: r < RUNS && claim[r % RUNS] == 0 -> r++
    :: else -> break
    od
}

/* Step 2: kranzq/dispatch/recover.py. Judge the claim, end what is left of its run by its nonce
 * (kranzq/runs/leftovers.py), then settle. `other` tells of a claim that is not gone. */
inline recover(i, in_hand) {
#ifdef NO_READ_AFTER_DEATH
    d_step { find_claim(); early = (r < RUNS && exit_json[r % RUNS]); r = 0 };
#endif
    atomic {
        find_claim();
        if
        :: r == RUNS -> r = 0; goto_settle = false
        :: r < RUNS && !JUDGED_GONE(i, r, in_hand) -> r = 0; goto_settle = false; other = true
        :: r < RUNS && JUDGED_GONE(i, r, in_hand) ->
            goto_settle = true;
#ifndef NO_LEFTOVERS_CHECK
            if
            :: MARKED(r) && record[r] != NO_RECORD && SEEN(i, r) -> end_tree(r)
            :: else
            fi
#endif
        fi
    };
    if
    :: goto_settle ->
#ifdef NO_START_IN_NAME
        d_step { /* whatever bears the name by now is what is settled */
            r2 = RUNS - 1;
            do
            :: r2 > r && !(claim[r2] != 0 && number[r2] == number[r]) -> r2--
            :: else -> break
            od;
            r = r2; r2 = 0
        };
#endif
        settle(i, r, READ_END(r), false);
        d_step { goto_settle = false; r = 0; early = false }
    :: else
    fi
}

/* The busy lock was not ours to take: recover.py (_look_at_lock), kranzq/runs/holders.py (judge_lock). Only where no
 * keeper says that it lives, and the taker is not among the holders, are those who are seen leftovers. */
#ifdef NO_KEEPER_LOCK
#define KEEPER_SEEN(s) false
#else
#define KEEPER_SEEN(s) SAYS_ALIVE(s)
#endif
inline look_at_lock(i) {
    d_step {
        for (r2 : 0 .. RUNS - 1) {
            if
            :: KEEPER_SEEN(r2) -> n = 1
            :: n == 0 && !KEEPER_SEEN(r2) && SEEN(i, r2) &&
                ((keeper[r2] >= TOLD && (holders & K(r2))) || (holders & T(r2))) -> n = 3
            :: else
            fi
        };
        if
        :: n != 1 && taker < 2 && (holders & D(taker % 2)) && SPACE(taker) == SPACE(i) ->
#ifdef NO_TAKER_CHECK
            assert(!at_work[taker]) /* a dispatcher at work is never ended */
#else
            n = 2
#endif
        :: else
        fi;
        if
        :: n == 3 ->
            for (r2 : 0 .. RUNS - 1) {
                if
                :: SEEN(i, r2) && (holders & (K(r2) | T(r2))) && keeper[r2] != CALLED ->
                    assert(!SAYS_ALIVE(r2)); /* a living keeper and its mission are never ended */
                    keeper[r2] = (keeper[r2] == TOLD -> GONE : keeper[r2]);
                    tree[r2] = (holders & T(r2) -> 0 : tree[r2]);
                    holders = holders & ~(K(r2) | T(r2));
                    taker = (holders == 0 -> NOBODY : taker);
                    CHANGED
                :: else
                fi
            }
        :: else
        fi;
        n = 0; r2 = 0
    }
}

/* Step 11: kranzq/dispatch/hold.py (let_go). Unlocking takes the lock from whoever inherited it. */
inline let_go(i, unlock) {
    d_step {
        busy_json = false;
        holders = (unlock -> 0 : holders & ~D(i));
        taker = (holders == 0 -> NOBODY : taker);
        at_work[i] = false;
        other = false
    }
}

/* kranzq/dispatch/turn.py: its lines, in its order. */
proctype Dispatcher(byte i) {
    byte s, r, r2, n, candidate;
    bool end, early, other, refused, goto_settle, lost;
    bool first = true;
turn:
    {
        /* step 1: hold.py (take_hold), without waiting; whoever was refused waits for the lock */
        atomic {
            look_again[i] || (refused && holders == 0) ->
            look_again[i] = false;
            at_work[i] = true;
            refused = (holders != 0);
            if
            :: !refused -> holders = D(i); taker = i
            :: else
            fi
        };
        if
        :: refused ->
            recover(i, false);
            look_at_lock(i);
            d_step { at_work[i] = false; other = false };
            goto turn
        :: else
        fi;
        /* end_all_leftovers, if there is a reason to look: every mark of this checkout */
        d_step {
#ifndef NO_LEFTOVERS_CHECK
            n = (first || busy_json);
            for (r2 : 0 .. RUNS - 1) { n = n + (claim[r2] != 0) };
            if
            :: n > 0 ->
                for (r2 : 0 .. RUNS - 1) {
                    if
                    :: (MARKED(r2) || (holders & T(r2))) && SEEN(i, r2) -> assert(!SAYS_ALIVE(r2)); end_tree(r2)
                    :: else
                    fi
                }
            :: else
            fi;
            r2 = 0; n = 0;
#endif
            first = false
        };
        recover(i, true);
        if
        :: other -> let_go(i, false); goto turn
        :: else -> busy_json = true
        fi;
choose:
        /* step 3: choose.py; the candidate is read here */
        atomic {
            candidate = entry;
            if
            :: candidate == 0 -> let_go(i, false); goto turn
            :: else
            fi
        };
        /* _settled_before: an end of this very entry that was recorded and not carried out */
        atomic {
            LOCK_NAMES(i);
            r = RUNS;
            do
            :: r > 0 && !(record[r - 1] != NO_RECORD && taken[r - 1] == candidate) -> r--
            :: else -> break
            od;
            if
            :: r > 0 && entry == candidate ->
                r--;
                if
                :: record[r] != ENDED -> fate[r] = (exit_json[r] -> RETIRE : RETURN); record[r] = ENDED
                :: else
                fi;
                if
#ifndef NO_FATE_PRECEDENCE
                :: fate[r] == RETIRE -> assert(done[entry]); entry = 0; candidate = 0
#endif
                :: else
                fi
            :: else
            fi;
            r = 0;
            UNLOCK_NAMES;
            if
            :: candidate == 0 -> goto choose
            :: else
            fi
        };
        /* step 4: launch.py (record): a keeper that waits, and run.json, which names the claim to be */
        d_step {
            s = runs;
            assert(runs < RUNS); /* a bound of this model, no promise */
            runs++;
            keeper[s] = WAITS;
            attended[s] = true;
#ifdef NO_START_IN_NAME
            number[s] = 0;
            for (r2 : 0 .. RUNS - 1) { number[s] = (r2 != s && LIVING(r2) -> number[r2] + 1 : number[s]) };
            r2 = 0;
#endif
            by[s] = i;
            taken[s] = candidate;
#ifndef NO_RECORD_BEFORE_CLAIM
            record[s] = CLAIMING;
#endif
            skip
        };
        /* step 5: launch.py (claim), backends/file/claims.py (take): touch, rename, then the inode is compared */
        atomic {
            LOCK_NAMES(i);
#ifdef ELSEWHERE
#ifdef NO_TOUCH
            old[s] = true; /* it has waited for more than an hour */
#else
            old[s] = false;
#endif
#endif
            TAKE(claim[s], entry)
        };
        atomic {
#ifdef NO_INODE_CHECK
            lost = (claim[s] == 0);
#else
            lost = (claim[s] != candidate);
#endif
            if
            :: lost -> TAKE(entry, claim[s])
            :: else
            fi;
            UNLOCK_NAMES
        };
        if
        :: lost -> /* another was faster: undo, and choose again */
            attended[s] = false;
            d_step { keeper[s] == GONE -> record[s] = NO_RECORD; taken[s] = 0; s = 0; lost = false };
            goto choose
        :: else
        fi;
#ifdef NO_RECORD_BEFORE_CLAIM
        record[s] = CLAIMING;
#endif
        /* step 7: launch.py (start, advance): *starting* before the word *go*, and not over an end */
#ifdef NO_STARTING_BEFORE_GO
        goto say_go;
starting:
#endif
        atomic {
            LOCK_NAMES(i);
            UNLOCK_NAMES;
            if
#ifndef NO_LOOK_BEFORE_STARTING
            :: record[s] == ENDED -> refused = true; goto not_started
#endif
            :: else -> record[s] = STARTING
            fi
        };
#ifdef NO_STARTING_BEFORE_GO
        goto watch;
say_go:
#endif
        /* runs/keepers.py (go): one packet with the order and the locks */
        atomic {
            if
            :: keeper[s] == WAITS ->
                keeper[s] = CALLED;
#ifndef NO_LOCK_IN_GO
                holders = holders | K(s);
#endif
                skip
            :: else -> refused = true; goto not_started
            fi
        };
#ifdef NO_STARTING_BEFORE_GO
        goto starting;
#endif
watch:
        /* step 8: watch_over.py; what a killed keeper left is ended before its end is decided */
        atomic {
            keeper[s] == GONE ->
#ifndef NO_LEFTOVERS_CHECK
            if
            :: !complete[s] && tree[s] != 0 -> end_tree(s)
            :: else
            fi;
#endif
            skip
        };
not_started:
        settle(i, s, exit_json[s], refused);
        attended[s] = false;
        d_step { keeper[s] == GONE -> s = 0; candidate = 0; refused = false; look_again[i] = true };
        let_go(i, true);
        goto turn
    } unless { killed[i] };
    atomic {
        killed[i] = false; look_again[i] = true; first = true;
        s = 0; r = 0; r2 = 0; n = 0; candidate = 0;
        end = false; early = false; other = false; refused = false; goto_settle = false; lost = false
    };
    goto turn
}

#if LIVES > 1
inline find_claims_then_enqueue() {
    d_step {
        find_claim();
        if
        :: r == RUNS -> lives++; entry = lives; SYNCED(lives); one_place(); CHANGED
        :: else -> assert(claim[r] != before) /* "it is there already" is not said of one that has ended */
        fi;
        r = 0
    }
}
#endif

/* Program 2: recover (without the lock, as any refused dispatcher), edit, enqueue. */
proctype Third() {
    byte r, r2, n, before;
    bool end, early, other, goto_settle;
    byte acts = ACTS;
next:
    {
        atomic { acts > 0 -> acts--; at_work[2] = true };
        if
        :: true ->
            recover(2, false);
#ifndef ELSEWHERE
            look_at_lock(2)
#endif
#if LIVES > 1
        :: atomic { lives < LIVES && entry != 0 && mutate == NOBODY ->
            /* dispatch/edit.py, backends/file/moves.py: new content under the present name, so another inode */
            lives++; withdrawn[entry] = true; entry = lives; SYNCED(lives); CHANGED }
        :: lives < LIVES ->
            /* dispatch/approve.py: first an end that nobody settled (unattended.py), then the entry */
            d_step {
                find_claim();
                before = (r < RUNS && keeper[r % RUNS] == GONE && complete[r % RUNS] -> claim[r % RUNS] : 0);
                r = 0
            };
#ifndef NO_SETTLE_FIRST
            atomic {
                find_claim();
                goto_settle = (r < RUNS && JUDGED_GONE(2, r % RUNS, false) && complete[r % RUNS])
            };
            if
            :: goto_settle -> settle(2, r, exit_json[r], false)
            :: else
            fi;
            d_step { goto_settle = false; r = 0 };
#endif
            /* backends/file/entries.py: the names are looked at one after the other */
            TOGETHER {
                LOCK_NAMES(2);
                if
                :: entry != 0 -> assert(entry != before)
                :: entry == 0 -> find_claims_then_enqueue()
                fi;
                UNLOCK_NAMES
            };
            before = 0
#endif
        fi;
        d_step { at_work[2] = false; other = false };
        goto next
    } unless { killed[2] };
    atomic {
        killed[2] = false; r = 0; r2 = 0; n = 0; before = 0;
        end = false; early = false; other = false; goto_settle = false
    };
    goto next
}

/* All keepers: keeper.py. A mission's own process ends; what survives it is ended; the end with its survivors is the
 * last act, and LOCK_UN with it if no dispatcher is there. */
#define STEPS(s) \
    :: atomic { keeper[s] == WAITS && !attended[s] -> keeper[s] = GONE; CHANGED } \
    :: atomic { keeper[s] == CALLED -> keeper[s] = TOLD } \
    :: atomic { keeper[s] == TOLD -> keeper[s] = KEEPS } \
    :: atomic { keeper[s] == KEEPS -> start(s) } \
    :: atomic { keeper[s] == MISSION -> keeper[s] = RECORDED; exit_json[s] = true; done[taken[s]] = true; \
        if :: end_tree(s) :: skip fi } \
    :: atomic { keeper[s] == RECORDED && tree[s] != 0 -> end_tree(s) } \
    :: atomic { keeper[s] == RECORDED && tree[s] == 0 -> complete[s] = true; keeper[s] = GONE; \
        holders = (attended[s] -> holders & ~K(s) : 0); taker = (holders == 0 -> NOBODY : taker); CHANGED }

inline start(s) {
    for (r2 : 0 .. RUNS - 1) { assert(tree[r2] == 0) }; /* never two missions in the tree */
    r2 = 0;
    assert(!done[taken[s]]);      /* a mission whose end was recorded never runs again */
    assert(claim[s] == taken[s]); /* what runs is what was read, and its claim is there */
    assert(!withdrawn[taken[s]]);
    began[s] = true;
    keeper[s] = MISSION;
    if
    :: tree[s] = BOTH
    :: tree[s] = LOCK_ONLY
#ifndef TWO_SPACES
    :: tree[s] = MARK_ONLY /* what another namespace cannot see must keep the lock: an assumption of promise 2 */
#endif
    fi;
#ifndef NO_INHERITED_LOCK
    holders = (tree[s] != MARK_ONLY -> holders | T(s) : holders);
#endif
    skip
}

proctype Keepers() {
    byte r2;
    do
    STEPS(0)
#if RUNS > 1
    STEPS(1)
#endif
#if RUNS > 2
    STEPS(2)
#endif
#if RUNS > 3
    STEPS(3)
#endif
    od
}

/* SIGKILL: the kernel frees what the dead held, and closes its sockets. */
inline strike(i) {
    kills--;
    killed[i] = true;
    at_work[i] = false;
    mutate = (mutate == i -> NOBODY : mutate);
    if
    :: i < 2 ->
        holders = holders & ~D(i);
        taker = (taker == i -> NOBODY : taker);
        for (r2 : 0 .. RUNS - 1) { attended[r2] = (by[r2] == i -> false : attended[r2]) };
        r2 = 0
    :: else
    fi;
    CHANGED
}

#ifdef NO_START_TICKS
#define REUSE(s) :: atomic { keeper[s] == GONE && claim[s] != 0 && !reused[s] -> reused[s] = true }
#else
#define REUSE(s)
#endif
#ifdef ELSEWHERE
/* An hour passes. A living keeper touches its claim once a minute; nobody stands still so long between two steps. */
#define AGE(s) :: atomic { keeper[s] == GONE && claim[s] != 0 && !old[s] -> old[s] = true }
#else
#define AGE(s)
#endif
#define FATES(s) \
    :: atomic { kills > 0 && LIVING(s) -> kills--; keeper[s] = GONE; holders = holders & ~K(s); \
        taker = (holders == 0 -> NOBODY : taker); CHANGED } \
    REUSE(s) AGE(s)

#if CUTS > 0
/* The power fails: every program is gone. What was not synced may be undone, whole renames, the last one first: the
 * unlink of a retired claim, or the claim as well. A run.json before its end may be lost; exit.json carries a copy. */
inline cut() {
    cuts--;
    killed[0] = true; killed[1] = true; killed[2] = true;
    at_work[0] = false; at_work[1] = false; at_work[2] = false;
    holders = 0; taker = NOBODY; mutate = NOBODY;
    back = RUNS;
    for (r2 : 0 .. RUNS - 1) {
        keeper[r2] = (keeper[r2] == NONE -> NONE : GONE);
        attended[r2] = false;
        tree[r2] = 0;
        back = (record[r2] != NO_RECORD && taken[r2] == durable -> r2 : back);
        if
        :: (record[r2] == CLAIMING || record[r2] == STARTING) && !exit_json[r2] -> record[r2] = NO_RECORD
        :: true
        fi
    };
    if
    :: true /* the disk had written it all */
    :: entry == 0 && back < RUNS ->
        for (r2 : 0 .. RUNS - 1) { claim[r2] = 0 };
        if
        :: claim[back] = durable
        :: entry = durable
        fi
    fi;
    r2 = 0; back = 0;
    CHANGED
}
#endif

proctype World() {
    byte r2, back;
    do
    :: atomic { kills > 0 && at_work[0] -> strike(0) }
    :: atomic { kills > 0 && at_work[1] -> strike(1) }
    :: atomic { kills > 0 && at_work[2] -> strike(2) }
    FATES(0)
#if RUNS > 1
    FATES(1)
#endif
#if RUNS > 2
    FATES(2)
#endif
#if RUNS > 3
    FATES(3)
#endif
#if CUTS > 0
    :: atomic { cuts > 0 -> cut() }
#endif
    od
}

/* When nothing moves any more everything is settled: no entry is lost, no lock is stuck, nothing is left. */
proctype Rest() {
    byte r2;
    timeout -> d_step {
#ifdef NEVER_AT_REST
        assert(false); /* must be found: else the promises below would be empty */
#endif
        assert(entry == 0 && holders == 0 && mutate == NOBODY);
        for (r2 : 0 .. RUNS - 1) { assert(claim[r2] == 0 && tree[r2] == 0) };
        for (r2 : 1 .. LIVES) { assert(r2 > lives || done[r2] || withdrawn[r2]) }
    }
}

init {
    atomic {
        CHANGED;
        run Dispatcher(0); run Dispatcher(1); run Third(); run Keepers(); run World(); run Rest()
    }
}
