// The read floor: a kernel that does nothing but bring the weights on chip, by bulk copies.
//
// Each CTA takes one slice of 128 KB, asks for all of it at once and waits. It keeps one word of
// every KB, so that a run can be checked to have read what it says.

constexpr unsigned SLICE = 128 * 1024;
constexpr unsigned COPY = 16 * 1024;
constexpr unsigned KEPT = 1024;  // bytes of which one word is kept

extern "C" __global__ void __launch_bounds__(128, 1)
read_weights(const char* weights, unsigned long long bytes, unsigned* kept) {
    extern __shared__ __align__(128) char slice[];
    __shared__ alignas(8) unsigned long long arrived;
    const unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&arrived));
    const unsigned long long start = static_cast<unsigned long long>(blockIdx.x) * SLICE;
    const unsigned size = bytes - start < SLICE ? static_cast<unsigned>(bytes - start) : SLICE;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                     "r"(size)
                     : "memory");
        const unsigned into = static_cast<unsigned>(__cvta_generic_to_shared(slice));
        for (unsigned at = 0; at < size; at += COPY) {
            const unsigned part = size - at < COPY ? size - at : COPY;
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                " [%0], [%1], %2, [%3];" ::"r"(into + at),
                "l"(weights + start + at), "r"(part), "r"(barrier)
                : "memory");
        }
        // weights are nobody's output: the next launch may begin to read its own
        asm volatile("griddepcontrol.launch_dependents;");
    }
    __syncthreads();
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
        "@!done bra again;\n}" ::"r"(barrier)
        : "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");  // before it writes what others may read
    if (threadIdx.x < size / KEPT) {
        kept[start / KEPT + threadIdx.x] =
            *reinterpret_cast<const unsigned*>(slice + threadIdx.x * KEPT);
    }
}
