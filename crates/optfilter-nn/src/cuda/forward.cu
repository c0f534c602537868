// The forward pass: one block takes one image at a time through the whole network with every activation in shared memory.
//
// `predict` and `losses` are as good as single precision; particles.cu has the fast one.

#define THREADS 512
#define WARPS 16

// Shared memory, in floats. A row of the image is 42 of them, so that the places of a window lie in different banks.
#define ROW 42
#define X0 0
#define A1 (X0 + 34 * ROW)
#define A2 (A1 + 18 * 18 * 36)
#define A3 (A2 + 10 * 10 * 36)
#define A4 (A3 + 6 * 6 * 36)
#define SCRATCH (A4 + 128)
// Bias and kernel of the first layer, biases of layers 2 to 4, kernel and bias of the dense layer.
#define FIRST (SCRATCH + 12)
#define BIASES (FIRST + 320)
#define DENSE (BIASES + 96)
#define COMMON_FLOATS (DENSE + 132)
// Weights of layers 2 to 4.
#define ALL_LAYERS COMMON_FLOATS
#define FORWARD_FLOATS (ALL_LAYERS + 3 * FRAGMENTS * 4)

__device__ __forceinline__ void zero(float *s, int n) {
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) ((float4 *)s)[i] = make_float4(0.f, 0.f, 0.f, 0.f);
}

// Reads one image into its bordered place.
__device__ __forceinline__ void read_image(float *x0, const float *__restrict__ image) {
    for (int i = threadIdx.x; i < 1024; i += THREADS) x0[(i / 32 + 1) * ROW + i % 32 + 1] = image[i];
}

// Reads the weights of the first and of the dense layer, and the biases.
__device__ __forceinline__ void read_ends(float *s, const float *__restrict__ w) {
    if (threadIdx.x < 320) s[FIRST + threadIdx.x] = w[threadIdx.x];
    if (threadIdx.x < 96) s[BIASES + threadIdx.x] = w[BIAS(2 + threadIdx.x / 32) + threadIdx.x % 32];
    if (threadIdx.x < 128) s[DENSE + threadIdx.x] = w[KERNEL_D + threadIdx.x];
    if (threadIdx.x == 128) s[DENSE + 128] = w[BIAS_D];
}

// First layer, one input channel: a lane is an output channel, a warp a patch of 4 x 4 pixels. In single precision: of its
// many windows, some have two nearly equal values, and a maximum found at another place than the CPU's shows in the derivative (with
// split halves it did, 1.6e-4 in one of ten chains, and they were no faster).
template <bool KEEP>
__device__ __forceinline__ void first_layer(const float *x0, const float *weights, float *out, unsigned char *which) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float w[9];
#pragma unroll
    for (int k = 0; k < 9; k++) w[k] = weights[KERNEL1 + k * 32 + lane];
    const float bias = weights[BIAS1 + lane];
    for (int patch = warp; patch < 64; patch += WARPS) {
        const int py = patch / 8 * 4, px = patch % 8 * 4;
        float acc[4][4];
#pragma unroll
        for (int i = 0; i < 16; i++) acc[i / 4][i % 4] = bias;
#pragma unroll
        for (int r = 0; r < 6; r++) {
            float x[6];
#pragma unroll
            for (int c = 0; c < 6; c += 2) {
                const float2 two = *(const float2 *)&x0[(py + r) * ROW + px + c];
                x[c] = two.x, x[c + 1] = two.y;
            }
#pragma unroll
            for (int ky = 0; ky < 3; ky++) {
                if (r - ky < 0 || r - ky > 3) continue;
#pragma unroll
                for (int o = 0; o < 4; o++)
#pragma unroll
                    for (int kx = 0; kx < 3; kx++) acc[r - ky][o] = fmaf(x[o + kx], w[ky * 3 + kx], acc[r - ky][o]);
            }
        }
#pragma unroll
        for (int v = 0; v < 4; v++) {
            const int y = v / 2 * 2, x = v % 2 * 2, wy = (py + y) / 2, wx = (px + x) / 2;
            const float a = acc[y][x], b = acc[y][x + 1], c = acc[y + 1][x], d = acc[y + 1][x + 1];
            if (KEEP)
                window<32>(a, b, c, d, 1.f, wy, wx, lane, out, which);
            else
                store<32, true>(fmaxf(fmaxf(a, b), fmaxf(c, d)), wy, wx, lane, out);
        }
    }
}

// Places of the maxima, one byte each.
#define WHICH1 0
#define WHICH2 8192
#define WHICH3 10240
#define WHICH4 10752

// The convolutions of the image in X0, from the weights of layers 2 to 4 in shared memory.
template <bool KEEP>
__device__ __forceinline__ void second_layer(float *s, const float *w2, unsigned char *which) {
    layer<16, 2, WARPS, true, KEEP>(s + A1, (const uint4 *)w2, s + BIASES, s + A2, which + WHICH2);
}
template <bool KEEP>
__device__ __forceinline__ void third_layer(float *s, const float *w3, unsigned char *which) {
    layer<8, 1, WARPS, true, KEEP>(s + A2, (const uint4 *)w3, s + BIASES + 32, s + A3, which + WHICH3);
}
template <bool KEEP>
__device__ __forceinline__ void fourth_layer(float *s, const float *w4, unsigned char *which) {
    layer<4, 1, WARPS, true, KEEP>(s + A3, (const uint4 *)w4, s + BIASES + 64, s + A4, which + WHICH4);
}

__device__ __forceinline__ void convolutions(float *s) {
    const float *w2 = s + ALL_LAYERS;
    first_layer<false>(s + X0, s + FIRST, s + A1, 0);
    __syncthreads();
    second_layer<false>(s, w2, 0);
    __syncthreads();
    third_layer<false>(s, w2 + FRAGMENTS * 4, 0);
    __syncthreads();
    fourth_layer<false>(s, w2 + 2 * FRAGMENTS * 4, 0);
    __syncthreads();
}

// The network's output behind the convolutions, for each lane of a warp.
__device__ __forceinline__ float output(const float *s) {
    const int lane = threadIdx.x & 31;
    float z = 0.f;
#pragma unroll
    for (int j = 0; j < 4; j++) z = fmaf(s[A4 + j * 32 + lane], s[DENSE + j * 32 + lane], z);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) z += __shfl_xor_sync(ALL_LANES, z, step);
    return z + s[DENSE + 128];
}

// Outputs of `count` images for each chain. Grid: (blocks of images, chains).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
predict(const float *__restrict__ weights, const uint4 *__restrict__ fragments, const float *__restrict__ images,
        const int *__restrict__ set_of, int count, int per_block, float *out) {
    extern __shared__ __align__(16) float s[];
    const int chain = blockIdx.y;
    const float *w = weights + (size_t)chain * PITCH;
    uint4 *w2 = (uint4 *)(s + ALL_LAYERS);
    for (int i = threadIdx.x; i < 3 * FRAGMENTS; i += THREADS)
        w2[i] = fragments[((size_t)chain * 6 + i / FRAGMENTS * 2) * FRAGMENTS + i % FRAGMENTS];
    zero(s, COMMON_FLOATS); // the borders; the interiors are always overwritten
    __syncthreads();
    read_ends(s, w);
    for (int j = 0; j < per_block; j++) {
        const int image = blockIdx.x * per_block + j;
        if (image >= count) break; // the same for the whole block
        read_image(s + X0, images + ((size_t)set_of[chain] * count + image) * 1024);
        __syncthreads();
        convolutions(s);
        const float z = output(s);
        if (threadIdx.x == 0) out[(size_t)chain * count + image] = z;
    }
}

// Summed loss of each particle over its chain's images. Grid: (particles, chains).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
losses(const float *__restrict__ particles, const float *__restrict__ images, const float *__restrict__ labels,
       const int *__restrict__ counts, int capacity, float *out) {
    extern __shared__ __align__(16) float s[];
    const int chain = blockIdx.y;
    const float *w = particles + ((size_t)chain * gridDim.x + blockIdx.x) * PITCH;
    uint4 *w2 = (uint4 *)(s + ALL_LAYERS);
    zero(s, COMMON_FLOATS);
    for (int i = threadIdx.x; i < 3 * FRAGMENTS; i += THREADS)
        w2[i] = split_weights_of(w + KERNEL(2 + i / FRAGMENTS), i % FRAGMENTS);
    float sum = 0.f;
    __syncthreads();
    read_ends(s, w);
    for (int image = 0; image < counts[chain]; image++) {
        read_image(s + X0, images + ((size_t)chain * capacity + image) * 1024);
        __syncthreads();
        convolutions(s);
        if (threadIdx.x < 32) sum += cross_entropy(output(s), labels[chain * capacity + image]);
    }
    if (threadIdx.x == 0) out[(size_t)chain * gridDim.x + blockIdx.x] = sum;
}
