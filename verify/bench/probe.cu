// Planted faults, one for each tool of compute-sanitizer, three of them in what a bulk copy moves.
// A tool that stays silent here would stay silent about a kernel that works by bulk copies.

constexpr unsigned BYTES = 1024;

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void copy_in(char* into, const char* from, unsigned long long* arrived) {
    const unsigned barrier = shared_address(arrived);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                     "r"(BYTES)
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            " [%0], [%1], %2, [%3];" ::"r"(shared_address(into)),
            "l"(from), "r"(BYTES), "r"(barrier)
            : "memory");
    }
    __syncthreads();
}

__device__ __forceinline__ void wait_for(unsigned long long* arrived) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
        "@!done bra again;\n}" ::"r"(shared_address(arrived))
        : "memory");
}

// memcheck: `from` is shorter than what is copied; initcheck: `from` was never written.
extern "C" __global__ void copies(const char* from, unsigned* to) {
    __shared__ alignas(128) char buffer[BYTES];
    __shared__ alignas(8) unsigned long long arrived;
    copy_in(buffer, from, &arrived);
    wait_for(&arrived);
    to[threadIdx.x] = reinterpret_cast<unsigned*>(buffer)[threadIdx.x];
}

// racecheck: the copy is read before it has arrived.
extern "C" __global__ void hurries(const char* from, unsigned* to) {
    __shared__ alignas(128) char buffer[BYTES];
    __shared__ alignas(8) unsigned long long arrived;
    copy_in(buffer, from, &arrived);
    to[threadIdx.x] = reinterpret_cast<unsigned*>(buffer)[threadIdx.x];
    wait_for(&arrived);
}

// synccheck: half of a warp stands at a barrier that the other half never reaches.
extern "C" __global__ void diverges(const char*, unsigned* to) {
    if (threadIdx.x % 32 < 16) __syncthreads();
    to[threadIdx.x] = threadIdx.x;
}
