/* The busy lock in its two halves, of which either may be replaced: kranzq/busy/lock.py, kranzq/dispatch/hold.py.
 *
 * Two dispatchers take turns in a checkout in which there may always be something to run. One half is loose: `git
 * clean` in a mission, or whatever else, may replace it at any time. The other may be replaced while nobody holds it.
 * Sizes: KILLS of any dispatcher or keeper, RUNS (missions started at most). Rules: -DNO_… takes one away.
 */
#ifndef KILLS
#define KILLS 2
#endif
#ifndef RUNS
#define RUNS 2
#endif
#define NOBODY 7

/* The first half is .git, the second .kranz/queue/.busy.flock. A path names its newest file; a lock is on a file. */
byte named[2];
#define FILE(half, age) (2 * (half) + (age))
/* Who has a descriptor that holds the lock on a file, and who took it. */
byte holders[4];
byte taker[4] = NOBODY;
#define D(i) (1 << (i))
#define K(s) (4 << (s))
#define T(s) (16 << (s))
byte loose;
bool replaced[2];
/* .busy.json lies in the queue, and goes with it. */
bool busy_json;

#define NONE 0
#define TOLD 1
#define KEEPS 2
#define MISSION 3
#define GONE 4
byte keeper[RUNS];
byte age1[RUNS], age2[RUNS]; /* on which files a keeper has its own lock */
bool attended[RUNS];
byte by[RUNS];
#define BOTH 1
#define LOCK_ONLY 2
#define MARK_ONLY 3
byte tree[RUNS];
byte runs;
byte kills = KILLS;
bool killed[2];
bool at_work[2];

#define DROP(file, who) \
    holders[file] = holders[file] & ~(who); taker[file] = (holders[file] == 0 -> NOBODY : taker[file])
inline drop_all(who) { DROP(0, who); DROP(1, who); DROP(2, who); DROP(3, who) }

/* flock without waiting; `taken` tells. */
inline flock(i, half, age) {
    atomic {
        taken = (holders[FILE(half, age)] == 0);
        if
        :: taken -> holders[FILE(half, age)] = D(i); taker[FILE(half, age)] = i
        :: else
        fi
    }
}

/* kranzq/runs/holders.py (judge_lock) and recover.py (_look_at_lock), on the files that are named now. */
#define HELD_BY(who) ((holders[FILE(0, named[0])] | holders[FILE(1, named[1])]) & (who))
#define KEEPER_SEEN(s) (keeper[s] >= KEEPS && keeper[s] != GONE && (age1[s] == named[0] || age2[s] == named[1]))
inline look_at_lock() {
    atomic {
        n = 0;
        for (r : 0 .. RUNS - 1) {
            if
            :: KEEPER_SEEN(r) -> n = 1
            :: n == 0 && !KEEPER_SEEN(r) && HELD_BY(K(r) | T(r)) -> n = 3
            :: else
            fi
        };
        if
        :: n == 3 && (HELD_BY(D(0)) && (taker[FILE(0, named[0])] == 0 || taker[FILE(1, named[1])] == 0) ||
                      HELD_BY(D(1)) && (taker[FILE(0, named[0])] == 1 || taker[FILE(1, named[1])] == 1)) -> n = 2
        :: else
        fi;
        if
        :: n == 3 ->
            for (r : 0 .. RUNS - 1) {
                if
                :: HELD_BY(K(r) | T(r)) ->
                    assert(keeper[r] < KEEPS || keeper[r] == GONE); /* a living keeper is never ended */
                    keeper[r] = (keeper[r] == TOLD -> GONE : keeper[r]);
                    tree[r] = (HELD_BY(T(r)) -> 0 : tree[r]);
                    drop_all(K(r) | T(r))
                :: else
                fi
            }
        :: else
        fi;
        n = 0; r = 0
    }
}

proctype Dispatcher(byte i) {
    byte s, r, n, one, two, seen_queue;
    bool taken, reason;
    bool first = true;
turn:
    {
        atomic { runs < RUNS -> at_work[i] = true; one = named[0]; two = NOBODY };
        /* busy/lock.py (try_hold): open, lock, open, lock; then both paths must still lead to what was locked */
#ifndef NO_FIRST_HALF
        flock(i, 0, one);
        if
        :: !taken -> goto refused
        :: else
        fi;
#endif
        two = named[1];
#ifndef NO_SECOND_HALF
        flock(i, 1, two);
        if
        :: !taken -> goto refused
        :: else
        fi;
#endif
        atomic {
            if
#ifndef NO_STILL_NAMED
            :: one != named[0] || two != named[1] -> goto give_up
#endif
            :: else
            fi;
            /* hold.py (take_hold): is there a reason to look for leftovers? */
            reason = (false
#ifndef NO_LOOK_AT_FIRST
            || first
#endif
#ifndef NO_LOOK_BY_RECORD
            || busy_json
#endif
#ifndef NO_LOOK_IN_NEW_QUEUE
            || (!first && seen_queue != named[1])
#endif
            );
            first = false;
            seen_queue = named[1]
        };
        /* runs/leftovers.py: every mark of this checkout, and whoever holds what we hold */
        d_step {
            for (r : 0 .. RUNS - 1) {
                if
                :: reason && (tree[r] == BOTH || tree[r] == MARK_ONLY || HELD_BY(T(r))) && keeper[r] == GONE ->
                    tree[r] = 0; drop_all(T(r))
                :: else
                fi
            };
            r = 0; reason = false
        };
        busy_json = false; /* one that lay there: whoever it names has not the lock */
        if
        :: true -> goto let_go /* nothing to run */
        :: runs < RUNS
        fi;
        busy_json = true; /* hold.py (name_keeper) */
        /* runs/keepers.py (go): the locks travel with the order */
        d_step {
            s = runs; runs++;
            keeper[s] = TOLD; attended[s] = true; by[s] = i; age1[s] = one; age2[s] = two;
#ifndef NO_FIRST_HALF
            holders[FILE(0, one)] = holders[FILE(0, one)] | K(s);
#endif
#ifndef NO_SECOND_HALF
            holders[FILE(1, two)] = holders[FILE(1, two)] | K(s);
#endif
            skip
        };
        /* dispatch/watch_over.py */
        atomic { keeper[s] == GONE -> tree[s] = 0; drop_all(T(s)) };
let_go:
        atomic { busy_json = false; s = 0; drop_all(D(i)); at_work[i] = false };
        one = 0; two = 0;
        goto turn;
refused:
        look_at_lock();
give_up:
        atomic { drop_all(D(i)); at_work[i] = false; one = 0; two = 0; taken = false };
        goto turn
    } unless { killed[i] };
    atomic {
        killed[i] = false; first = true; s = 0; r = 0; n = 0; one = 0; two = 0; seen_queue = 0;
        taken = false; reason = false
    };
    goto turn
}

#define STEPS(s) \
    :: atomic { keeper[s] == TOLD -> keeper[s] = KEEPS } \
    :: atomic { keeper[s] == KEEPS -> start(s) } \
    :: atomic { keeper[s] == MISSION -> keeper[s] = GONE; tree[s] = 0; drop_all(K(s) | T(s)) } \
    :: atomic { kills > 0 && keeper[s] != NONE && keeper[s] != GONE -> kills--; keeper[s] = GONE; drop_all(K(s)) }

inline start(s) {
    for (r : 0 .. RUNS - 1) { assert(tree[r] == 0) }; /* never two missions in the tree */
    r = 0;
    keeper[s] = MISSION;
    if
    :: tree[s] = BOTH
    :: tree[s] = LOCK_ONLY
    :: tree[s] = MARK_ONLY
    fi;
    for (r : 0 .. 3) { holders[r] = (tree[s] != MARK_ONLY && (holders[r] & K(s)) -> holders[r] | T(s) : holders[r]) };
    r = 0
}

#define STRIKE(i) \
    :: atomic { kills > 0 && at_work[i] -> kills--; killed[i] = true; at_work[i] = false; drop_all(D(i)); \
        taker[0] = (taker[0] == i -> NOBODY : taker[0]); taker[1] = (taker[1] == i -> NOBODY : taker[1]); \
        taker[2] = (taker[2] == i -> NOBODY : taker[2]); taker[3] = (taker[3] == i -> NOBODY : taker[3]) }

/* Another file under the path; with the second half the whole queue is new. */
#define REPLACE(half) \
    :: atomic { !replaced[half] && (loose == half || holders[FILE(half, named[half])] == 0) -> \
        replaced[half] = true; named[half] = 1; busy_json = (half == 1 -> false : busy_json) }

proctype World() {
    byte r;
    do
    STEPS(0)
    STEPS(1)
#if RUNS > 2
    STEPS(2)
#endif
    STRIKE(0)
    STRIKE(1)
    REPLACE(0)
    REPLACE(1)
    od
}

init {
    atomic {
        if
        :: loose = 0
        :: loose = 1
        fi;
        run Dispatcher(0); run Dispatcher(1); run World()
    }
}
