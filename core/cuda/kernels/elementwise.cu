/*
 * What is done to each element by itself: activations, sums, averages, conversions. Every
 * output may be one of its inputs.
 */
#include "args.cuh"
#include "math.cuh"

// Does the body for each i below n.
#define EACH(n) for (long long i = first_element(); i < (n); i += element_step())

KERNEL(tanh_forward, ElementsArgs, 256) { EACH(args.n) args.to[i] = hyperbolic_tangent(args.x[i]); }

// to = y (1 - x x): x is what tanh gave, y the gradient of that.
KERNEL(tanh_backward, ElementsArgs, 256) { EACH(args.n) args.to[i] = args.y[i] * (1 - args.x[i] * args.x[i]); }

// to = y where x, what the ReLU gave, is above zero.
KERNEL(relu_backward, ElementsArgs, 256) { EACH(args.n) args.to[i] = args.x[i] > 0 ? args.y[i] : 0; }

KERNEL(add, ElementsArgs, 256) { EACH(args.n) args.to[i] = args.x[i] + args.y[i]; }

// to = (1 - by) x + by y
KERNEL(average, ElementsArgs, 256) { EACH(args.n) args.to[i] = args.keep * args.x[i] + args.by * args.y[i]; }

// to = by * the bytes at x
KERNEL(convert_bytes, ElementsArgs, 256) {
  EACH(args.n) args.to[i] = args.by * (float)((const unsigned char *)args.x)[i];
}

// Words of an array of many minibatches: those of the update that is due.
KERNEL(select, SelectArgs, 256) {
  const unsigned *from = args.from + (args.first + *args.update) * args.words;
  EACH(args.words) args.to[i] = from[i];
}

// Rows by their index, in pieces of the size of T.
template <class T>
__device__ __forceinline__ void pick_rows(const PickArgs &args) {
  const int *index = args.index + args.first + (args.update == nullptr ? 0 : *args.update * args.rows);
  const unsigned pieces = (unsigned)(args.width / (long long)sizeof(T));  // of a row
  EACH(args.rows * pieces) {
    const unsigned row = (unsigned)i / pieces;
    ((T *)args.to)[i] = ((const T *)args.from)[(long long)index[row] * pieces + ((unsigned)i - row * pieces)];
  }
}

// A minibatch of a rollout. 16 or 4 bytes at a time where rows are whole numbers of them and
// lie at multiples of that.
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
 * Observations that are stacks of frames, from an arena of frames of one width. A stack's
 * frames lie one behind the other in a ring of the arena; those that are older than its
 * episode, and all of a stack of no frames, are zeros. A vector observation is one frame.
 * Blocks of a frame each, block.y of a stack; 16 bytes at a time where frames are whole
 * numbers of them.
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
