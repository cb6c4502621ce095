/*
 * Dense layers. The forward pass is a grid of dot products along the inputs:
 * each output of each row has one vector accumulator, whose order does not
 * depend on the grid, and the weights are read in place, so that a single state
 * costs one pass over them.
 */

/* y[r][o] for a few rows of x and a few outputs, both constants where it is used. */
INLINE void dots(const int rows, const int outs, float *y, ptrdiff_t ldy, const float *x,
		 const float *w, const float *b, ptrdiff_t in, int relu)
{
	vec acc[DOT_ROWS][8];
	UNROLL for (int r = 0; r < rows; r++)
		UNROLL for (int o = 0; o < outs; o++)
			acc[r][o] = v_zero();
	ptrdiff_t k = 0;
	for (; k + VW <= in; k += VW) {
		vec wv[8];
		UNROLL for (int o = 0; o < outs; o++)
			wv[o] = v_load(w + o * in + k);
		UNROLL for (int r = 0; r < rows; r++) {
			vec xv = v_load(x + r * in + k);
			UNROLL for (int o = 0; o < outs; o++)
				acc[r][o] = v_fma(xv, wv[o], acc[r][o]);
		}
	}
	if (k < in) {
		UNROLL for (int r = 0; r < rows; r++) {
			vec xv = v_load_some(x + r * in + k, in - k);
			UNROLL for (int o = 0; o < outs; o++)
				acc[r][o] = v_fma(xv, v_load_some(w + o * in + k, in - k), acc[r][o]);
		}
	}
	UNROLL for (int r = 0; r < rows; r++)
		UNROLL for (int o = 0; o < outs; o++) {
			float v = v_sum(acc[r][o]) + b[o];
			y[r * ldy + o] = relu && v < 0 ? 0 : v;
		}
}

static TARGET void dense_forward(float *y, const float *x, const float *w, const float *b,
				 ptrdiff_t n, ptrdiff_t in, ptrdiff_t out, int relu)
{
	ptrdiff_t o = 0;
	for (; o + 8 <= out; o += 8) {
		ptrdiff_t i = 0;
		for (; i + DOT_ROWS <= n; i += DOT_ROWS) {
			dots(DOT_ROWS, 4, y + i * out + o, out, x + i * in, w + o * in, b + o, in, relu);
			dots(DOT_ROWS, 4, y + i * out + o + 4, out, x + i * in, w + (o + 4) * in, b + o + 4, in, relu);
		}
		for (; i < n; i++)
			dots(1, 8, y + i * out + o, out, x + i * in, w + o * in, b + o, in, relu);
	}
	for (; o < out; o++) {
		ptrdiff_t i = 0;
		for (; i + DOT_ROWS <= n; i += DOT_ROWS)
			dots(DOT_ROWS, 1, y + i * out + o, out, x + i * in, w + o * in, b + o, in, relu);
		for (; i < n; i++)
			dots(1, 1, y + i * out + o, out, x + i * in, w + o * in, b + o, in, relu);
	}
}

static TARGET void dense_grad_w(float *dw, float *db, const float *x, const float *dz,
				ptrdiff_t n, ptrdiff_t in, ptrdiff_t out, float *ws)
{
	ws = aligned(ws);
	float *a = take(&ws, MR * round_up(n, 4));
	float *narrow = take(&ws, n * NR);
	float *t = take(&ws, MR * NR);
	const ptrdiff_t whole = in / NR * NR;

	pack_narrow(narrow, x + whole, in, in - whole, n);
	for (ptrdiff_t o = 0; o < out; o += VW) {
		ptrdiff_t some = min(VW, out - o);
		vec acc = v_zero();
		for (ptrdiff_t i = 0; i < n; i++)
			acc = v_add(acc, get(dz + i * out + o, some));
		put(db + o, acc, some);
	}
	for (ptrdiff_t q = 0; q < panels(out); q++) {
		ptrdiff_t o = panel_start(out, q), m = panel_start(out, q + 1) - o;
		pack_columns(a, dz + o, out, m, n);
		for (ptrdiff_t j = 0; j < whole; j += NR)
			tiles[m - 1](n, a, x + j, in, dw + o * in + j, in, 0);
		if (whole < in) {
			tiles[m - 1](n, a, narrow, NR, t, NR, 0);
			put_narrow(dw + o * in + whole, in, t, m, in - whole, 0);
		}
	}
}

static TARGET void dense_grad_x(float *dx, const float *w, const float *dz, ptrdiff_t n,
				ptrdiff_t in, ptrdiff_t out, float *ws)
{
	const ptrdiff_t deep = round_up(out, 4);
	ws = aligned(ws);
	float *a = take(&ws, n * deep);
	float *narrow = take(&ws, out * NR);
	float *t = take(&ws, MR * NR);

	for (ptrdiff_t q = 0; q < panels(n); q++) {
		ptrdiff_t i = panel_start(n, q), m = panel_start(n, q + 1) - i;
		pack_rows(a + i * deep, dz + i * out, out, m, out);
	}
	/* Columns outside: w is the large operand, and is read from memory once. */
	for (ptrdiff_t j = 0; j < in; j += NR) {
		ptrdiff_t cols = min(NR, in - j);
		if (cols < NR)
			pack_narrow(narrow, w + j, in, cols, out);
		for (ptrdiff_t q = 0; q < panels(n); q++) {
			ptrdiff_t i = panel_start(n, q), m = panel_start(n, q + 1) - i;
			if (cols == NR) {
				tiles[m - 1](out, a + i * deep, w + j, in, dx + i * in + j, in, 0);
			} else {
				tiles[m - 1](out, a + i * deep, narrow, NR, t, NR, 0);
				put_narrow(dx + i * in + j, in, t, m, cols, 0);
			}
		}
	}
}
