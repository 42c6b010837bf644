/* presence.pml: the rules of sessions, deadlines, stream and outbox, small enough to look at every interleaving: two devices with at
 * most two sessions each, two workers that may stop anywhere for as long as they like (a pause, or a crash where they never go on),
 * an API that may go deaf, a wall clock that may step, and a Redis that may be emptied.
 *
 * A script is atomic, a statement of PostgreSQL is atomic; between any two of them everything else may happen.
 *
 * Asserted: every event once (ONCE), a device's events in order (ORDER), no session closed before the service listened for its whole
 * ttl (EARLY), and, where Redis was not lost, nothing missing at the end (LOST).
 * Each NO_… below takes one protection out; tests/model/run expects the error that it then finds.
 *
 * Run with spin (https://spinroot.com): spin -a presence.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan */

#ifndef TICKS
#define TICKS 4 /* of the wall clock */
#endif
#ifndef BEATS
#define BEATS 2 /* heartbeats a device */
#endif
#ifndef LOSSES
#define LOSSES 0 /* times that Redis is emptied */
#endif
#ifndef STEPS
#define STEPS 0 /* steps of the wall clock */
#endif

#define DEVICES 2
#define SESSIONS 2 /* a device */
#define TTL 1
#define OUTAGE 1 /* ticks */
#define IDS 20 /* more stream ids than can come to be */
#define ENTRIES 12

#define ONLINE 0
#define OFFLINE 1

/* ---- Redis. Only differences of its clock matter, so the state has them alone. */
short heard = 10;              /* the last mark, on the presence clock: ingest_seen - P */
short gap = 0;                 /* wall clock since the last mark; below 0 after a step back */
byte server = 1, adopted = 1;  /* run_id of the server; the one that was adopted */
byte last_id = 0;                   /* of the stream */
byte facts[DEVICES], due[DEVICES];  /* open session, 0 none; score */
byte head = 0, tail = 0;            /* the stream: entries head .. tail - 1 */
byte entry_id[ENTRIES], entry_device[ENTRIES], entry_session[ENTRIES], entry_kind[ENTRIES];

/* ---- PostgreSQL */
byte row_session[DEVICES];
bit row_kind[DEVICES];
/* The outbox needs no place of its own: a row is written where the device's row moves, so a row written twice or out of order is
 * a row that did not move forward. */

/* ---- What really was */
byte listened[DEVICES]; /* ticks of listening since the device's last heartbeat, at most TTL */
byte opened[DEVICES];   /* sessions so far */
bit lost = 0;
byte running = 0;

/* L: it runs while we hear, and on for OUTAGE after the last mark. Nobody is declared dead later than the last mark. */
#define NOW_L (heard + (gap <= OUTAGE -> gap : 0))
#define CUTOFF (heard + (gap < 0 -> gap : 0))
/* Finding, checking and closing are one script. */
#ifndef NO_RECHECK
#define STILL_DUE(d) (due[d] < CUTOFF)
#else
#define STILL_DUE(d) true
#endif

inline mark() {
  if
  :: gap > OUTAGE || gap < -OUTAGE -> /* goes into P: the presence clock stood still */
#ifdef NO_PAUSE
    heard = heard + gap
#else
    skip
#endif
  :: else ->
    heard = heard + gap;
    if
    :: gap > 0 ->
      listened[0] = (listened[0] < TTL -> listened[0] + 1 : TTL);
      listened[1] = (listened[1] < TTL -> listened[1] + 1 : TTL)
    :: else
    fi
  fi;
  gap = 0
}

inline xadd(what, who, which) {
  last_id++;
  assert(tail < ENTRIES && last_id < IDS);
  entry_id[tail] = last_id;
  entry_kind[tail] = what;
  entry_device[tail] = who;
  entry_session[tail] = (what == ONLINE -> last_id : which);
  tail++
}

#define IN_POSTGRES(d, s, what) (s < row_session[d] || (s == row_session[d] && what <= row_kind[d]))

inline drop() {
  assert(IN_POSTGRES(entry_device[head], entry_session[head], entry_kind[head])); /* LOST */
  entry_id[head] = 0;
  entry_device[head] = 0;
  entry_session[head] = 0;
  entry_kind[head] = 0;
  head++
}

inline close_session(d) {
  xadd(OFFLINE, d, facts[d]);
  assert(lost || listened[d] >= TTL); /* EARLY */
  facts[d] = 0
}

inline record(d) {
  mark();
  if
  :: facts[d] != 0 && due[d] >= NOW_L -> skip /* renewed */
  :: else ->
    if
    :: facts[d] != 0 ->
#ifndef FORGET_LATE
      close_session(d)
#else
      facts[d] = 0
#endif
    :: else
    fi;
    xadd(ONLINE, d, 0);
    facts[d] = last_id;
    opened[d]++
  fi;
  due[d] = NOW_L + TTL;
  listened[d] = 0
}

/* ---- The append: the row is the guard, and the history is made whole. */
inline put_online(d, s) {
  assert(s > row_session[d] && (row_session[d] == 0 || row_kind[d] == OFFLINE)); /* ONCE, ORDER */
  row_session[d] = s;
  row_kind[d] = ONLINE
}

inline put_offline(d, s) {
  assert(row_session[d] == s && row_kind[d] == ONLINE); /* ONCE, ORDER */
  row_kind[d] = OFFLINE
}

inline append(what, d, s) {
  if
#ifndef NO_GUARD
  :: IN_POSTGRES(d, s, what) -> skip /* a repeat */
#endif
  :: else ->
#ifndef NO_HISTORY
    if
    :: row_session[d] != 0 && s > row_session[d] && row_kind[d] == ONLINE -> assert(lost); put_offline(d, row_session[d])
    :: else
    fi;
    if
    :: what == OFFLINE && s > row_session[d] -> assert(lost); put_online(d, s)
    :: else
    fi;
#endif
    if
    :: what == ONLINE -> put_online(d, s)
    :: else -> put_offline(d, s)
    fi
  fi
}

/* ---- What runs */
proctype Device(byte d) {
  byte beats = 0;
  do
  :: beats < BEATS ->
    atomic {
      beats++;
      if
      :: adopted == server && (opened[d] < SESSIONS || (facts[d] != 0 && due[d] >= NOW_L)) -> record(d)
      :: else /* 503, or it has had its sessions */
      fi
    }
  :: break
  od;
  atomic { running-- }
}

proctype Time() {
  byte ticks = 0, steps = 0;
  do
  :: ticks < TICKS ->
    atomic { /* an API loop marks */
      ticks++;
      gap++;
      if
      :: adopted == server -> mark()
      :: else
      fi
    }
  :: ticks < TICKS -> atomic { ticks++; gap++ } /* deaf */
  :: steps < STEPS -> atomic { steps++; if :: gap = gap + 4 :: gap = gap - 3 fi }
  :: break
  od;
  atomic { running-- }
}

/* One thing after another; at every semicolon it may stand for ever. */
proctype Worker() {
  byte d, epoch, floor;
  byte id, device, session, kind;
next:
  do
  :: atomic { facts[0] != 0 && adopted == server && due[0] < CUTOFF -> d = 0 }; goto expire
  :: atomic { facts[1] != 0 && adopted == server && due[1] < CUTOFF -> d = 1 }; goto expire
  :: atomic {
      head < tail && adopted == server ->
      epoch = server;
      id = entry_id[head];
      device = entry_device[head];
      session = entry_session[head];
      kind = entry_kind[head]
    };
    goto publish
  :: adopted != server -> goto adopt
  :: break /* and never came back */
  od;
  goto end;
expire:
    atomic { /* expire_due */
      if
      :: adopted == server && facts[d] != 0 && STILL_DUE(d) -> close_session(d)
      :: else
      fi
    };
    goto again;
publish:
    atomic { append(kind, device, session) };
#ifdef TRIM_ALL
    atomic {
      do
      :: head < tail && adopted == server && epoch == server -> drop()
      :: else -> break
      od
    };
#else
    atomic { /* trim */
      if
#ifndef NO_EPOCH
      :: epoch != server || adopted != server -> skip
#endif
      :: else ->
        do
        :: head < tail && entry_id[head] <= id -> drop()
        :: else -> break
        od
      fi
    };
#endif
    goto again;
adopt:
    atomic { epoch = server; floor = (row_session[0] > row_session[1] -> row_session[0] : row_session[1]) };
    atomic { /* the script: only once, and only the server that was meant */
      if
      :: adopted != server && epoch == server ->
#ifndef NO_RAISE
        last_id = (last_id < floor -> floor : last_id);
#endif
        gap = 0;
        d = 0;
        do
        :: d < DEVICES ->
          if
          :: row_session[d] != 0 && row_kind[d] == ONLINE -> facts[d] = row_session[d]; due[d] = NOW_L + TTL
          :: else
          fi;
          d++
        :: else -> break
        od;
        adopted = server
      :: else
      fi
    };
again:
  atomic { d = 0; id = 0; device = 0; session = 0; kind = 0; epoch = 0; floor = 0 }; /* fewer states */
  goto next;
end:
  atomic { running-- }
}

#if LOSSES > 0
proctype Loss() {
  if
  :: atomic {
      lost = 1;
      server++;
      adopted = 0;
      last_id = 0;
      head = 0;
      tail = 0;
      facts[0] = 0;
      facts[1] = 0;
      due[0] = 0;
      due[1] = 0
    }
  :: skip
  fi;
  atomic { running-- }
}
#endif

init {
  byte i;
  atomic {
    running = 5;
    run Device(0);
    run Device(1);
    run Time();
    run Worker();
    run Worker();
#if LOSSES > 0
    running++;
    run Loss()
#endif
  };
  /* All is quiet; one more worker comes and does what is left. */
  atomic {
    running == 0 ->
    do
    :: head < tail && adopted == server ->
      append(entry_kind[head], entry_device[head], entry_session[head]);
      drop()
    :: else -> break
    od;
    i = 0;
    do
    :: i < DEVICES && !lost -> /* LOST */
      assert(facts[i] != 0 || row_session[i] == 0 || row_kind[i] == OFFLINE);
      assert(facts[i] == 0 || (row_session[i] == facts[i] && row_kind[i] == ONLINE));
      i++
    :: else -> break
    od
  }
}
