// Loss and derivative: one block takes one image at a time forward and back and adds to its own partial derivative, which adam.cu
// sums in a fixed order: no atomics on sums, the same result every time.
//
// A layer's weights are fetched to shared memory in the background, where possible while something else is computed.

// Images `from` to `to` of a chain; the derivative goes to `part`, the loss is returned to the first warp. `n` counts images: each
// fetches weights five times through one gate and once through the other.
__device__ __forceinline__ float segment(float *s, const float *__restrict__ w, const uint4 *f, const float *__restrict__ pixels,
                                         const float *__restrict__ labels, const float *__restrict__ factors, float scale,
                                         int from, int to, float *part, unsigned &n) {
    unsigned char *which = (unsigned char *)(s + WHICH);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    // What few threads add: the loss, and derivatives of the first layer, of biases and of the dense layer.
    float sum = 0.f, first_sum = 0.f, bias2 = 0.f, bias3 = 0.f, bias4 = 0.f, dense_sum = 0.f, last_bias = 0.f;
    read_ends(s, w);
    // The next image is on its way while one is computed.
    float2 next = ((const float2 *)(pixels + from * 1024))[threadIdx.x];
    for (int image = from; image < to; image++, n++) {
        const bool add = image > from;
        STAGE(0);
        fetch(s + LAYER, f, s + GATE);
        float *x = &s[X0 + (threadIdx.x / 16 + 1) * ROW + threadIdx.x % 16 * 2 + 1];
        x[0] = next.x, x[1] = next.y;
        if (image + 1 < to) next = ((const float2 *)(pixels + (image + 1) * 1024))[threadIdx.x];
        const float y = labels[image], factor = factors[image];
        if (threadIdx.x < 3) s[LARGEST(2 + threadIdx.x)] = 0.f;
        __syncthreads();
        STAGE(1);
        fetch(s + D1, f + 2 * FRAGMENTS, s + GATE3);
        first_layer<true>(s + X0, s + FIRST, s + A1, which + WHICH1);
        await(s + GATE, 5 * n);
        __syncthreads();
        STAGE(2);
        second_layer<true>(s, s + LAYER, which);
        await(s + GATE3, n);
        __syncthreads();
        STAGE(3);
        fetch(s + LAYER, f + 4 * FRAGMENTS, s + GATE);
        third_layer<true>(s, s + D1, which);
        await(s + GATE, 5 * n + 1);
        __syncthreads();
        STAGE(4);
        fourth_layer<true>(s, s + LAYER, which);
        __syncthreads();
        STAGE(5);

        fetch(s + LAYER, f + 5 * FRAGMENTS, s + GATE);
        // Four warps have a window of the last pooled image each, and all find the same output.
        if (warp < 4) {
            const float z = output(s), e = expf(-fabsf(z));
            const float dz = ((z >= 0.f ? 1.f : e) / (1.f + e) - y) * scale * factor;
            const float a = s[A4 + threadIdx.x], d = a > 0.f ? dz * s[DENSE + threadIdx.x] : 0.f;
            s[D4 + warp * APART + lane] = d;
            note_largest(s, 4, fabsf(d));
            dense_sum += a * dz;
            last_bias += dz;
            if (warp == 0) sum += factor * cross_entropy(z, y);
        }
        __syncthreads();
        STAGE(6);
        layer_all<4, 1>(s, 5 * n + 2, part, add, bias4);
        STAGE(7);
        fetch(s + LAYER, f + 3 * FRAGMENTS, s + GATE);
        layer_all<8, 1>(s, 5 * n + 3, part, add, bias3);
        STAGE(8);
        fetch(s + LAYER, f + FRAGMENTS, s + GATE);
        layer_all<16, 2>(s, 5 * n + 4, part, add, bias2);
        STAGE(9);
        if (warp < 12)
            layer_weights<16>(s, warp, part, add);
        else
            first_weights(s, warp - 12, which);
        __syncthreads();
        STAGE(10);
        if (threadIdx.x < 320) {
#pragma unroll
            for (int v = 0; v < 4; v++) first_sum += s[D1 + v * 64 * APART + threadIdx.x];
        }
    }
    if (threadIdx.x < 320) part[threadIdx.x < 288 ? KERNEL1 + threadIdx.x : BIAS1 + threadIdx.x - 288] = first_sum;
    if (warp == WARPS - 1) {
        part[BIAS(2) + lane] = bias2;
        part[BIAS(3) + lane] = bias3;
        part[BIAS(4) + lane] = bias4;
    }
    if (threadIdx.x < 128) part[KERNEL_D + threadIdx.x] = dense_sum;
    if (threadIdx.x == 0) part[BIAS_D] = last_bias;
    return sum * scale;
}

// The images of all chains, `per_chain` each, one chain after the other, are dealt out to the blocks, `per_block` each. A block
// writes a partial derivative (PITCH floats) and a loss for each chain it meets; block b and chain c have row b + c. `factors` has
// `capacity` numbers for each chain: how much an image counts.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
gradient(const float *__restrict__ weights, const uint4 *__restrict__ fragments, const float *__restrict__ images,
         const float *__restrict__ labels, const int *__restrict__ counts, const int *__restrict__ set_of,
         const float *__restrict__ scales, const float *__restrict__ factors, int capacity, int chains, int per_chain, int per_block, float *partial, float *loss) {
    extern __shared__ __align__(16) float s[];
    const int first = blockIdx.x * per_block, last = min(first + per_block, chains * per_chain);
    unsigned n = 0;
    zero(s, GRADIENT_FLOATS); // the borders; the interiors are always overwritten
    __syncthreads();
    if (threadIdx.x == 0) {
        open_gate(s + GATE);
        open_gate(s + GATE3);
    }
    __syncthreads();
    for (int chain = first / per_chain; chain * per_chain < last; chain++) {
        const int set = set_of[chain], row = blockIdx.x + chain;
        const int from = max(first - chain * per_chain, 0), to = min(last - chain * per_chain, min(per_chain, counts[set]));
        float *part = partial + (size_t)row * PITCH, sum = 0.f;
        if (from < to)
            sum = segment(s, weights + (size_t)chain * PITCH, fragments + (size_t)chain * 6 * FRAGMENTS,
                          images + (size_t)set * capacity * 1024, labels + set * capacity,
                          factors + (size_t)chain * capacity, scales[chain], from, to, part, n);
        else
            zero(part, PITCH);
        if (threadIdx.x == 0) loss[row] = sum;
    }
    PRINT_STAGES(11);
}
