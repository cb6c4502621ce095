/*
 * Convolution. Inside, a picture is [height, width, channel]: the inputs that
 * one output sees are then only `kernel` contiguous runs of kernel * in_c
 * floats, so unrolling them (im2col) is a copy of long runs, done for one panel
 * at a time and never stored whole. Pictures are transposed on the way in and
 * out, weights once a call. A "patch" is the unrolled input of one output, in
 * the order (ky, kx, channel); "runs" are its `kernel` pieces.
 */

struct shape {
	ptrdiff_t pixels;  /* of an input picture */
	ptrdiff_t outputs; /* of one output channel */
	ptrdiff_t window;  /* kernel * kernel */
	ptrdiff_t run;     /* kernel * in_c */
	ptrdiff_t patch;   /* kernel * run */
	ptrdiff_t line;    /* floats from one input row to the next */
};

INLINE struct shape shape_of(const struct paceline_conv *c)
{
	return (struct shape){
		.pixels = c->in_h * c->in_w,
		.outputs = c->out_h * c->out_w,
		.window = c->kernel * c->kernel,
		.run = c->kernel * c->in_c,
		.patch = c->kernel * c->kernel * c->in_c,
		.line = c->in_w * c->in_c,
	};
}

/* Where the patch of output p begins in a transposed picture. */
INLINE ptrdiff_t patch_start(const struct paceline_conv *c, ptrdiff_t p)
{
	return (p / c->out_w * c->in_w + p % c->out_w) * c->stride * c->in_c;
}

enum { STRIP = 64 }; /* pixels converted at a time */

/* Picture i of the batch as [pixel][channel] floats; strip holds in_c * STRIP. */
static TARGET void load_picture(float *dst, const float *x, const uint8_t *x8, float scale,
				ptrdiff_t i, const struct paceline_conv *c, float *strip)
{
	ptrdiff_t pixels = c->in_h * c->in_w, channels = c->in_c;
	if (x) {
		transpose(dst, channels, x + i * pixels * channels, pixels, channels, pixels);
		return;
	}
	const uint8_t *src = x8 + i * pixels * channels;
	vec s = v_set1(scale);
	for (ptrdiff_t p = 0; p < pixels; p += STRIP) {
		ptrdiff_t n = min(STRIP, pixels - p);
		for (ptrdiff_t ch = 0; ch < channels; ch++) {
			const uint8_t *from = src + ch * pixels + p;
			float *to = strip + ch * STRIP;
			ptrdiff_t j = 0;
			for (; j + VW <= n; j += VW)
				v_store(to + j, v_mul(v_from_bytes(from + j), s));
			for (; j < n; j++)
				to[j] = (float)from[j] * scale;
		}
		transpose(dst + p * channels, channels, strip, STRIP, channels, n);
	}
}

/* Packs the patches of outputs p ... p+m-1 as a panel of A. */
static TARGET void pack_patches(float *dst, const float *picture, const struct paceline_conv *c,
				const struct shape *s, ptrdiff_t p, ptrdiff_t m)
{
	for (ptrdiff_t r = 0; r < m; r++) {
		const float *src = picture + patch_start(c, p + r);
		if (s->run % 4 == 0) {
			float *d = dst + 4 * r;
			for (ptrdiff_t ky = 0; ky < c->kernel; ky++, src += s->line)
				for (ptrdiff_t j = 0; j < s->run; j += 4, d += 4 * m)
					memcpy(d, src + j, 4 * sizeof *d);
			continue;
		}
		ptrdiff_t k = 0;
		for (ptrdiff_t ky = 0; ky < c->kernel; ky++, src += s->line)
			for (ptrdiff_t j = 0; j < s->run; j++, k++)
				dst[(k / 4 * m + r) * 4 + k % 4] = src[j];
	}
}

/* A part of a run: n floats at patch position `at`, in the picture at `from`. */
struct piece {
	ptrdiff_t from, at, n;
};

/* The pieces of patch positions j ... j+n-1, n <= NR; `at` counts from j. */
static TARGET int pieces_of(struct piece *out, const struct shape *s, ptrdiff_t j, ptrdiff_t n)
{
	int count = 0;
	for (ptrdiff_t at = 0; at < n; count++) {
		ptrdiff_t ky = (j + at) / s->run, in_run = (j + at) % s->run;
		ptrdiff_t len = min(s->run - in_run, n - at);
		out[count] = (struct piece){ky * s->line + in_run, at, len};
		at += len;
	}
	return count;
}

/* Weights of output channels o ... o+m-1, m <= 4, in patch order, one channel a row. */
static TARGET void load_weights(float *dst, const float *w, ptrdiff_t o, ptrdiff_t m,
				const struct paceline_conv *c, const struct shape *s)
{
	for (ptrdiff_t r = 0; r < m; r++)
		transpose(dst + r * s->patch, c->in_c, w + (o + r) * s->patch, s->window, c->in_c, s->window);
}

static TARGET void conv_forward(float *y, const float *x, const uint8_t *x8, float scale,
				const float *w, const float *b, ptrdiff_t n,
				const struct paceline_conv *c, float *ws)
{
	const struct shape s = shape_of(c);
	const ptrdiff_t out_c = c->out_c, wide = round_up(out_c, NR);
	ws = aligned(ws);
	float *packed = take(&ws, wide * s.patch); /* [out_c/NR][patch][NR] */
	float *bias = take(&ws, wide);
	float *picture = take(&ws, s.pixels * c->in_c);
	float *strip = take(&ws, c->in_c * STRIP);
	float *rows = take(&ws, 4 * s.patch);
	float *a = take(&ws, MR * round_up(s.patch, 4));
	float *t = take(&ws, MR * NR);

	memset(packed, 0, (size_t)(wide * s.patch) * sizeof *packed);
	for (ptrdiff_t o = 0; o < out_c; o += 4) {
		ptrdiff_t m = min(4, out_c - o);
		load_weights(rows, w, o, m, c, &s);
		transpose(packed + o / NR * NR * s.patch + o % NR, NR, rows, s.patch, m, s.patch);
	}
	memset(bias, 0, (size_t)wide * sizeof *bias);
	memcpy(bias, b, (size_t)out_c * sizeof *bias);

	for (ptrdiff_t i = 0; i < n; i++, y += out_c * s.outputs) {
		load_picture(picture, x, x8, scale, i, c, strip);
		for (ptrdiff_t q = 0; q < panels(s.outputs); q++) {
			ptrdiff_t p = panel_start(s.outputs, q), m = panel_start(s.outputs, q + 1) - p;
			pack_patches(a, picture, c, &s, p, m);
			for (ptrdiff_t o = 0; o < out_c; o += NR) {
				tiles[m - 1](s.patch, a, packed + o * s.patch, NR, t, NR, 0);
				vec b0 = v_load(bias + o), b1 = v_load(bias + o + VW);
				for (ptrdiff_t r = 0; r < m; r++) {
					float *row = t + r * NR;
					v_store(row, v_relu(v_add(v_load(row), b0)));
					v_store(row + VW, v_relu(v_add(v_load(row + VW), b1)));
				}
				transpose(y + o * s.outputs + p, s.outputs, t, NR, m, min(NR, out_c - o));
			}
		}
	}
}

/* The sum of n floats in VW interleaved sums. */
static TARGET float sum_of(const float *p, ptrdiff_t n)
{
	vec acc = v_zero();
	for (ptrdiff_t i = 0; i < n; i += VW)
		acc = v_add(acc, get(p + i, min(VW, n - i)));
	return v_sum(acc);
}

static TARGET void conv_grad_w(float *dw, float *db, const float *x, const uint8_t *x8, float scale,
			       const float *dz, ptrdiff_t n, const struct paceline_conv *c, float *ws)
{
	const struct shape s = shape_of(c);
	const ptrdiff_t out_c = c->out_c, deep = round_up(s.outputs, 4);
	ws = aligned(ws);
	float *sum = take(&ws, out_c * s.patch); /* dw in patch order */
	float *picture = take(&ws, s.pixels * c->in_c);
	float *strip = take(&ws, c->in_c * STRIP);
	float *a = take(&ws, out_c * deep);
	float *bt = take(&ws, s.outputs * NR);
	float *t = take(&ws, MR * NR);
	struct piece pieces[NR];

	memset(sum, 0, (size_t)(out_c * s.patch) * sizeof *sum);
	memset(db, 0, (size_t)out_c * sizeof *db);
	for (ptrdiff_t i = 0; i < n; i++, dz += out_c * s.outputs) {
		load_picture(picture, x, x8, scale, i, c, strip);
		for (ptrdiff_t o = 0; o < out_c; o++)
			db[o] += sum_of(dz + o * s.outputs, s.outputs);
		for (ptrdiff_t q = 0; q < panels(out_c); q++) {
			ptrdiff_t o = panel_start(out_c, q), m = panel_start(out_c, q + 1) - o;
			pack_rows(a + o * deep, dz + o * s.outputs, s.outputs, m, s.outputs);
		}
		for (ptrdiff_t j = 0; j < s.patch; j += NR) {
			ptrdiff_t cols = min(NR, s.patch - j);
			int count = pieces_of(pieces, &s, j, cols);
			if (cols < NR)
				memset(bt, 0, (size_t)(s.outputs * NR) * sizeof *bt);
			for (ptrdiff_t p = 0; p < s.outputs; p++) {
				const float *src = picture + patch_start(c, p);
				float *d = bt + p * NR;
				if (pieces[0].n == NR) {
					v_store(d, v_load(src + pieces[0].from));
					v_store(d + VW, v_load(src + pieces[0].from + VW));
					continue;
				}
				for (int e = 0; e < count; e++)
					for (ptrdiff_t l = 0; l < pieces[e].n; l++)
						d[pieces[e].at + l] = src[pieces[e].from + l];
			}
			for (ptrdiff_t q = 0; q < panels(out_c); q++) {
				ptrdiff_t o = panel_start(out_c, q), m = panel_start(out_c, q + 1) - o;
				float *to = sum + o * s.patch + j;
				if (cols == NR) {
					tiles[m - 1](s.outputs, a + o * deep, bt, NR, to, s.patch, 1);
				} else {
					tiles[m - 1](s.outputs, a + o * deep, bt, NR, t, NR, 0);
					put_narrow(to, s.patch, t, m, cols, 1);
				}
			}
		}
	}
	for (ptrdiff_t o = 0; o < out_c; o++)
		transpose(dw + o * s.patch, s.window, sum + o * s.patch, c->in_c, s.window, c->in_c);
}

static TARGET void conv_grad_x(float *dx, const float *w, const float *dz, ptrdiff_t n,
			       const struct paceline_conv *c, float *ws)
{
	const struct shape s = shape_of(c);
	const ptrdiff_t out_c = c->out_c, wide = round_up(s.patch, NR);
	ws = aligned(ws);
	float *packed = take(&ws, wide * out_c); /* [patch/NR][out_c][NR] */
	float *picture = take(&ws, s.pixels * c->in_c);
	float *row = take(&ws, s.patch);
	float *a = take(&ws, MR * round_up(out_c, 4));
	float *t = take(&ws, MR * NR);
	struct piece pieces[NR];

	memset(packed, 0, (size_t)(wide * out_c) * sizeof *packed);
	for (ptrdiff_t o = 0; o < out_c; o++) {
		load_weights(row, w, o, 1, c, &s);
		for (ptrdiff_t j = 0; j < s.patch; j += NR)
			memcpy(packed + j * out_c + o * NR, row + j,
			       (size_t)min(NR, s.patch - j) * sizeof *row);
	}

	for (ptrdiff_t i = 0; i < n; i++, dz += out_c * s.outputs, dx += s.pixels * c->in_c) {
		memset(picture, 0, (size_t)(s.pixels * c->in_c) * sizeof *picture);
		for (ptrdiff_t q = 0; q < panels(s.outputs); q++) {
			ptrdiff_t p = panel_start(s.outputs, q), m = panel_start(s.outputs, q + 1) - p;
			pack_columns(a, dz + p, s.outputs, m, out_c);
			for (ptrdiff_t j = 0; j < s.patch; j += NR) {
				tiles[m - 1](out_c, a, packed + j * out_c, NR, t, NR, 0);
				int count = pieces_of(pieces, &s, j, min(NR, s.patch - j));
				for (ptrdiff_t r = 0; r < m; r++) {
					float *to = picture + patch_start(c, p + r);
					const float *d = t + r * NR;
					if (pieces[0].n == NR) {
						to += pieces[0].from;
						v_store(to, v_add(v_load(to), v_load(d)));
						v_store(to + VW, v_add(v_load(to + VW), v_load(d + VW)));
						continue;
					}
					for (int e = 0; e < count; e++)
						for (ptrdiff_t l = 0; l < pieces[e].n; l++)
							to[pieces[e].from + l] += d[pieces[e].at + l];
				}
			}
		}
		transpose(dx, s.pixels, picture, c->in_c, s.pixels, c->in_c);
	}
}
