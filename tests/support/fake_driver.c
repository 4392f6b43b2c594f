/* Stand-ins for libnvidia-ml.so.1 and libcuda.so.1: two GPUs, told as the real libraries tell them. */
#include <stdlib.h>
#include <string.h>

typedef struct { char legacy[16]; unsigned domain, bus, device, ids, subsystem; char bus_id[32]; } pci_info;
typedef struct { unsigned long long total, free, used; } memory_info;

static int mode(const char *word) { const char *set = getenv("FAKE_DRIVER"); return set && strstr(set, word) != NULL; }

int nvmlInit_v2(void) { if (mode("mismatch")) return 18; if (mode("crash")) abort(); return 0; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "GPU is lost"; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "580.65.06", length); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = mode("lost") ? 3 : 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    if (index > 1) return 15;
    *handle = (void *)(size_t)(index + 1);
    return 0;
}
int nvmlDeviceGetName(void *gpu, char *text, unsigned length) {
    strncpy(text, (size_t)gpu == 1 ? "NVIDIA A100-SXM4-40GB" : "NVIDIA GB10", length);
    return 0;
}
int nvmlDeviceGetUUID(void *gpu, char *text, unsigned length) {
    const char *uuids[] = {"GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002",
                           "MIG-cccccccc-0000-0000-0000-000000000003"};
    strncpy(text, uuids[(size_t)gpu - 1], length);
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *gpu, pci_info *info) {
    memset(info, 0, sizeof *info);
    info->ids = 0x20b010de;
    strcpy(info->bus_id, (size_t)gpu == 1 ? "00000000:3B:00.0" : "00000000:5E:00.0");
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *gpu, int *major, int *minor) {
    if ((size_t)gpu == 1) { *major = 8; *minor = 0; } else { *major = 12; *minor = 1; }
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *gpu, memory_info *memory) {
    if ((size_t)gpu == 2) return 3;
    memory->total = 42949672960ULL;
    return 0;
}
int nvmlDeviceGetMigMode(void *gpu, unsigned *current, unsigned *pending) {
    if ((size_t)gpu == 2) return 3;
    *current = *pending = 1;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *gpu, unsigned *count) { (void)gpu; *count = 2; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *gpu, unsigned index, void **handle) {
    (void)gpu;
    if (index) return 6;
    *handle = (void *)3;
    return 0;
}

int cuDriverGetVersion(int *version) { if (mode("stub")) return 34; *version = 13000; return 0; }
int cuGetErrorString(int code, const char **text) {
    *text = code == 34 ? "CUDA driver is a stub library" : "forward compatibility was attempted on non supported HW";
    return 0;
}
int cuInit(unsigned flags) { (void)flags; return mode("compat") ? 804 : 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) { /* CUDA puts the faster one first, so its order is not NVML's */
    case 75: *value = device ? 8 : 12; return 0;
    case 76: *value = device ? 0 : 1; return 0;
    case 33: *value = device ? 0x3b : 0x5e; return 0;
    case 34: case 50: *value = 0; return 0;
    }
    return 1;
}
int cuDeviceGetName(char *text, int length, int device) {
    strncpy(text, device ? "NVIDIA A100-SXM4-40GB" : "NVIDIA GB10", (size_t)length);
    return 0;
}
int cuDeviceGetUuid(unsigned char *uuid, int device) {
    memset(uuid, 0, 16);
    memset(uuid, device ? 0xaa : 0xbb, 4);
    uuid[15] = device ? 1 : 2;
    return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = 42949672960ULL; return 0; }
