// A driver and a compiler that do nothing: what the back end asks of the real ones can be counted without a device. Memory is the
// host's, launches are taken and forgotten. The name of each call goes, a line each, to the file that FLAMBEAU_NULL_CALLS names.
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int place(void) {
    static int fd = -2;
    if (fd == -2) {
        const char *path = getenv("FLAMBEAU_NULL_CALLS");
        fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    }
    return fd;
}
static void note(const char *name) {
    int fd = place();
    if (fd >= 0 && write(fd, name, strlen(name)) + write(fd, "\n", 1) < 1) {
        abort();
    }
}
#define CALL(name, ...) \
    int name(__VA_ARGS__) { \
        note(#name);
#define END \
    return 0; \
    }

typedef unsigned long long address;
static int something;

CALL(cuInit, unsigned flags) (void)flags; END
CALL(cuDriverGetVersion, int *v) *v = 13000; END
CALL(cuDeviceGetCount, int *n) *n = 1; END
CALL(cuDeviceGet, int *d, int i) *d = i; END
CALL(cuDevicePrimaryCtxRetain, void **c, int d) (void)d; *c = &something; END
CALL(cuCtxSetCurrent, void *c) (void)c; END
CALL(cuCtxSynchronize, void) END
CALL(cuDeviceGetName, char *name, int n, int d) (void)d; if (n > 4) strcpy(name, "null"); END
CALL(cuDeviceTotalMem_v2, size_t *n, int d) (void)d; *n = (size_t)16 << 30; END
CALL(cuDeviceGetAttribute, int *v, int which, int d) (void)which; (void)d; *v = 32; END
CALL(cuMemGetInfo_v2, size_t *free, size_t *all) *free = *all = (size_t)16 << 30; END
CALL(cuMemAlloc_v2, address *a, size_t n) *a = (address)(size_t)aligned_alloc(512, (n + 511) / 512 * 512); END
CALL(cuMemFree_v2, address a) free((void *)(size_t)a); END
CALL(cuMemcpyHtoDAsync_v2, address to, const void *from, size_t n, void *s) (void)s; memcpy((void *)(size_t)to, from, n); END
CALL(cuMemcpyDtoHAsync_v2, void *to, address from, size_t n, void *s) (void)s; memcpy(to, (void *)(size_t)from, n); END
CALL(cuMemcpyDtoDAsync_v2, address to, address from, size_t n, void *s) (void)s; memmove((void *)(size_t)to, (void *)(size_t)from, n); END
CALL(cuMemsetD8Async, address to, unsigned char byte, size_t n, void *s) (void)s; memset((void *)(size_t)to, byte, n); END
CALL(cuStreamCreate, void **s, unsigned flags) (void)flags; *s = malloc(1); END
CALL(cuStreamSynchronize, void *s) (void)s; END
CALL(cuStreamQuery, void *s) (void)s; END
CALL(cuStreamWaitEvent, void *s, void *e, unsigned flags) (void)s; (void)e; (void)flags; END
CALL(cuEventCreate, void **e, unsigned flags) (void)flags; *e = malloc(1); END
CALL(cuEventRecord, void *e, void *s) (void)e; (void)s; END
CALL(cuEventQuery, void *e) (void)e; END
CALL(cuEventSynchronize, void *e) (void)e; END
CALL(cuEventElapsedTime, float *ms, void *a, void *b) (void)a; (void)b; *ms = 1; END
// as a driver that has no use for what others compiled: the compiler below gives an empty image
CALL(cuModuleLoadData, void **m, const void *image)
    const char *refuses = getenv("FLAMBEAU_NULL_REFUSES");
    if (refuses && *refuses == '1' && *(const char *)image) return 209;
    *m = &something;
END
CALL(cuModuleGetFunction, void **f, void *m, const char *name) (void)m; (void)name; *f = &something; END
CALL(cuLaunchKernel, void *f, unsigned a, unsigned b, unsigned c, unsigned x, unsigned y, unsigned z, unsigned shared, void *s, void **p, void **e)
    (void)f; (void)a; (void)b; (void)c; (void)x; (void)y; (void)z; (void)shared; (void)s; (void)p; (void)e;
END
int cuGetErrorString(int r, const char **text) {
    (void)r;
    *text = "an error of the driver that does nothing";
    return 0;
}

// the compiler: of no interest to who counts calls of the driver
int nvrtcVersion(int *a, int *b) { *a = 13; *b = 0; return 0; }
int nvrtcCreateProgram(void **p, const char *text, const char *name, int n, const char **headers, const char **names) {
    (void)text; (void)name; (void)n; (void)headers; (void)names;
    *p = &something;
    return 0;
}
int nvrtcCompileProgram(void *p, int n, const char **options) { (void)p; (void)n; (void)options; return 0; }
int nvrtcGetProgramLogSize(void *p, size_t *n) { (void)p; *n = 1; return 0; }
int nvrtcGetProgramLog(void *p, char *log) { (void)p; *log = 0; return 0; }
int nvrtcGetCUBINSize(void *p, size_t *n) { (void)p; *n = 1; return 0; }
int nvrtcGetCUBIN(void *p, char *image) { (void)p; *image = 0; return 0; }
int nvrtcDestroyProgram(void **p) { *p = NULL; return 0; }
