/*
 * Elementwise kernels: activations, sums, averages, conversions, and copies of minibatches. An
 * elementwise output may be one of the inputs.
 */
#include "args.cuh"
#include "math.cuh"

// Runs the body for each i below n.
#define EACH(n) for (long long i = first_element(); i < (n); i += element_step())

KERNEL(tanh_forward, ElementsArgs, 256) { EACH(args.n) args.to[i] = hyperbolic_tangent(args.x[i]); }

// to = y (1 - x x): x is the output of tanh, y its gradient.
KERNEL(tanh_backward, ElementsArgs, 256) { EACH(args.n) args.to[i] = args.y[i] * (1 - args.x[i] * args.x[i]); }

// to = y where x, the output of the ReLU, is above zero.
KERNEL(relu_backward, ElementsArgs, 256) { EACH(args.n) args.to[i] = args.x[i] > 0 ? args.y[i] : 0; }

KERNEL(add, ElementsArgs, 256) { EACH(args.n) args.to[i] = args.x[i] + args.y[i]; }

// to = decay x + factor y
KERNEL(average, ElementsArgs, 256) { EACH(args.n) args.to[i] = args.decay * args.x[i] + args.factor * args.y[i]; }

// to = factor * the bytes at x
KERNEL(convert_bytes, ElementsArgs, 256) {
  EACH(args.n) args.to[i] = args.factor * (float)((const unsigned char *)args.x)[i];
}

// Copies the current update's minibatch from an array of many minibatches.
KERNEL(select, SelectArgs, 256) {
  const unsigned *from = args.from + (args.first + *args.update) * args.words;
  EACH(args.words) args.to[i] = from[i];
}

// Copies rows by their index, in pieces of the size of T.
template <class T>
__device__ __forceinline__ void pick_rows(const PickArgs &args) {
  const int *index = args.index + args.first + (args.update == nullptr ? 0 : *args.update * args.rows);
  const unsigned pieces = (unsigned)(args.width / (long long)sizeof(T));  // per row
  EACH(args.rows * pieces) {
    const unsigned row = (unsigned)i / pieces;
    ((T *)args.to)[i] = ((const T *)args.from)[(long long)index[row] * pieces + ((unsigned)i - row * pieces)];
  }
}

// Copies a minibatch of a rollout, 16 or 4 bytes at a time if the rows' length and alignment allow.
KERNEL(pick, PickArgs, 256) {
  const long long all = args.width | (long long)args.from | (long long)args.to;
  if (all % 16 == 0)
    pick_rows<uint4>(args);
  else if (all % 4 == 0)
    pick_rows<unsigned>(args);
  else
    pick_rows<unsigned char>(args);
}

/*
 * Copies observations, which are stacks of frames, from an arena of frames of equal width. The
 * frames of a stack lie in order in a ring of the arena. Frames from before the episode are zeros,
 * as are all frames of a stack with frames = 0. A vector observation is one frame. Each block
 * copies one frame: blockIdx.x is the row, blockIdx.y the frame. The copy goes 16 bytes at a time
 * if the width allows.
 */
KERNEL(gather, GatherArgs, 128) {
  const long long due = args.update == nullptr ? 0 : *args.update;
  const Stack stack = args.stacks[due * args.rows + (long long)blockIdx.x];
  const int frame = (int)blockIdx.y, width = args.width;
  unsigned char *to = args.to + ((long long)blockIdx.x * args.frames + frame) * width;
  const bool zero = frame < args.frames - stack.frames;
  const int slot = stack.base + (stack.first - stack.base + frame) % stack.slots;
  const unsigned char *from = args.arena + (long long)slot * width;
  if (width % 16 == 0) {
    const uint4 none = {0, 0, 0, 0};
    for (int i = (int)threadIdx.x; i < width / 16; i += 128) ((uint4 *)to)[i] = zero ? none : ((const uint4 *)from)[i];
    return;
  }
  for (int i = (int)threadIdx.x; i < width; i += 128) to[i] = zero ? 0 : from[i];
}
