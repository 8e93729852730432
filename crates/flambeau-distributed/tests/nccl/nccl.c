/* What the tests need of NCCL, for ranks that are threads of one process and devices that are emulated, whose memory is the host's:
   each call waits for all ranks and works at once. Numbers are float32; other types are moved alone. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Addresses of emulated devices have a mark above those of the host. */
#define AT(p) ((void *)((uintptr_t)(p) & 0xffffffffffffull))

struct world {
  char id[128];
  int size, come, round;
  const void *from[64];
  void *to[64];
  struct message { const void *data; int peer; } out[64][64];
  int outs[64];
  struct world *next;
};
struct comm { int rank; struct world *world; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct world *worlds;
static int ids;

static void all(struct world *w) {
  pthread_mutex_lock(&lock);
  int round = w->round;
  if (++w->come == w->size) {
    w->come = 0;
    w->round++;
    pthread_cond_broadcast(&changed);
  } else {
    while (w->round == round) pthread_cond_wait(&changed, &lock);
  }
  pthread_mutex_unlock(&lock);
}
static size_t width(int type) {
  static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return widths[type];
}
const char *ncclGetErrorString(int r) { return r == 4 ? "invalid argument" : "error"; }
int ncclGetVersion(int *v) { *v = 22701; return 0; }
int ncclGetUniqueId(char *id) {
  memset(id, 0, 128);
  pthread_mutex_lock(&lock);
  memcpy(id, &ids, sizeof ids);
  ids++;
  pthread_mutex_unlock(&lock);
  return 0;
}
struct id { char bytes[128]; };
int ncclCommInitRank(struct comm **c, int size, struct id id, int rank) {
  pthread_mutex_lock(&lock);
  struct world *w = worlds;
  while (w && memcmp(w->id, id.bytes, 128)) w = w->next;
  if (!w) {
    w = calloc(1, sizeof *w);
    memcpy(w->id, id.bytes, 128);
    w->size = size;
    w->next = worlds;
    worlds = w;
  }
  pthread_mutex_unlock(&lock);
  *c = malloc(sizeof **c);
  (*c)->rank = rank;
  (*c)->world = w;
  all(w);
  return 0;
}
int ncclCommDestroy(struct comm *c) { free(c); return 0; }
int ncclCommAbort(struct comm *c) { free(c); return 0; }
int ncclBroadcast(const void *a, void *b, size_t n, int type, int root, struct comm *c, void *s) {
  struct world *w = c->world;
  if (c->rank == root) w->from[root] = AT(a);
  all(w);
  b = AT(b);
  if (b != w->from[root]) memcpy(b, w->from[root], n * width(type));
  all(w);
  return 0;
}
/* Elements from `at` on, of all ranks: 0 sum, 1 product, 2 max, 3 min, 4 mean. */
static int reduce(struct world *w, float *to, size_t at, size_t n, int type, int op) {
  if (type != 7) return 4;
  float *got = malloc(n * sizeof *got + 1);
  for (size_t i = 0; i < n; i++) {
    float v = ((const float *)w->from[0])[at + i];
    for (int r = 1; r < w->size; r++) {
      float x = ((const float *)w->from[r])[at + i];
      v = op == 1 ? v * x : op == 2 ? (x > v ? x : v) : op == 3 ? (x < v ? x : v) : v + x;
    }
    got[i] = op == 4 ? v / w->size : v;
  }
  all(w);
  if (to) memcpy(to, got, n * sizeof *got);
  free(got);
  all(w);
  return 0;
}
int ncclAllReduce(const void *a, void *b, size_t n, int type, int op, struct comm *c, void *s) {
  c->world->from[c->rank] = AT(a);
  all(c->world);
  return reduce(c->world, AT(b), 0, n, type, op);
}
int ncclReduce(const void *a, void *b, size_t n, int type, int op, int root, struct comm *c, void *s) {
  c->world->from[c->rank] = AT(a);
  all(c->world);
  return reduce(c->world, c->rank == root ? AT(b) : 0, 0, n, type, op);
}
int ncclReduceScatter(const void *a, void *b, size_t n, int type, int op, struct comm *c, void *s) {
  c->world->from[c->rank] = AT(a);
  all(c->world);
  return reduce(c->world, AT(b), c->rank * n, n, type, op);
}
int ncclAllGather(const void *a, void *b, size_t n, int type, struct comm *c, void *s) {
  struct world *w = c->world;
  w->from[c->rank] = AT(a);
  all(w);
  for (int r = 0; r < w->size; r++) memcpy((char *)AT(b) + r * n * width(type), w->from[r], n * width(type));
  all(w);
  return 0;
}
/* messages of a group wait for its end */
static _Thread_local int inside;
static _Thread_local struct comm *mine;
static _Thread_local struct { void *to; size_t bytes; int peer; } in[64];
static _Thread_local int ins;
int ncclGroupStart(void) { inside++; return 0; }
int ncclSend(const void *a, size_t n, int type, int peer, struct comm *c, void *s) {
  struct world *w = c->world;
  mine = c;
  w->out[c->rank][w->outs[c->rank]].data = AT(a);
  w->out[c->rank][w->outs[c->rank]++].peer = peer;
  return inside ? 0 : 4;
}
int ncclRecv(void *b, size_t n, int type, int peer, struct comm *c, void *s) {
  mine = c;
  in[ins].to = AT(b);
  in[ins].bytes = n * width(type);
  in[ins++].peer = peer;
  return inside ? 0 : 4;
}
int ncclGroupEnd(void) {
  inside--;
  if (!mine) return 0;
  struct world *w = mine->world;
  all(w);
  for (int i = 0; i < ins; i++) {
    int before = 0;
    for (int j = 0; j < i; j++) before += in[j].peer == in[i].peer;
    for (int k = 0; k < w->outs[in[i].peer]; k++) {
      struct message m = w->out[in[i].peer][k];
      if (m.peer == mine->rank && before-- == 0) memcpy(in[i].to, m.data, in[i].bytes);
    }
  }
  ins = 0;
  all(w);
  w->outs[mine->rank] = 0;
  all(w);
  mine = 0;
  return 0;
}
