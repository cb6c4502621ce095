/*
 * Matrix products by tiles: an m x NR block of C, m <= MR, stays in registers
 * while k runs from one end to the other.
 *
 * A comes packed in panels of m rows, four k at a time: [k/4][m][4], so that the
 * tile reads it in order and both a row-major and a column-major A are packed
 * with 16-byte moves. B is read in place, NR columns at row stride ldb, and
 * packed only where its rows are not contiguous or not NR wide.
 *
 * An element of C is one chain of multiply-adds in the order of k, whatever m
 * is and wherever the element lies: this is what makes a row's result
 * independent of the other rows.
 */

INLINE void tile(const int m, ptrdiff_t k, const float *a, const float *b, ptrdiff_t ldb,
		 float *c, ptrdiff_t ldc, int add)
{
	vec acc[MR][2];
	UNROLL for (int r = 0; r < m; r++)
		acc[r][0] = acc[r][1] = v_zero();
	for (; k >= 4; k -= 4) {
		UNROLL for (int j = 0; j < 4; j++) {
			vec b0 = v_load(b), b1 = v_load(b + VW);
			/* B's rows may be pages apart, where no hardware prefetcher follows. */
			__builtin_prefetch(b + 8 * ldb);
			if (VW == 16)
				__builtin_prefetch(b + 8 * ldb + VW);
			UNROLL for (int r = 0; r < m; r++) {
				vec x = v_set1(a[4 * r + j]);
				acc[r][0] = v_fma(x, b0, acc[r][0]);
				acc[r][1] = v_fma(x, b1, acc[r][1]);
			}
			b += ldb;
		}
		a += 4 * m;
	}
	for (ptrdiff_t j = 0; j < k; j++) {
		vec b0 = v_load(b), b1 = v_load(b + VW);
		UNROLL for (int r = 0; r < m; r++) {
			vec x = v_set1(a[4 * r + j]);
			acc[r][0] = v_fma(x, b0, acc[r][0]);
			acc[r][1] = v_fma(x, b1, acc[r][1]);
		}
		b += ldb;
	}
	UNROLL for (int r = 0; r < m; r++) {
		if (add) {
			acc[r][0] = v_add(v_load(c + r * ldc), acc[r][0]);
			acc[r][1] = v_add(v_load(c + r * ldc + VW), acc[r][1]);
		}
		v_store(c + r * ldc, acc[r][0]);
		v_store(c + r * ldc + VW, acc[r][1]);
	}
}

#define TILE(m)                                                                              \
	static TARGET void tile_##m(ptrdiff_t k, const float *a, const float *b, ptrdiff_t ldb, \
				    float *c, ptrdiff_t ldc, int add)                        \
	{                                                                                    \
		tile(m, k, a, b, ldb, c, ldc, add);                                          \
	}
TILES(TILE)
#undef TILE

typedef void tile_function(ptrdiff_t k, const float *a, const float *b, ptrdiff_t ldb, float *c,
			   ptrdiff_t ldc, int add);

/* tiles[m - 1] computes, or with add set adds to, m rows of NR columns. */
#define TILE(m) tile_##m,
static tile_function *const tiles[] = {TILES(TILE)};
#undef TILE

/*
 * Rows are split into panels of nearly equal height: 49 rows are 13 + 12 + 12 +
 * 12, not three of 14 and one of 7, which would run at half the speed.
 */
INLINE ptrdiff_t panels(ptrdiff_t rows) { return (rows + MR - 1) / MR; }
INLINE ptrdiff_t panel_start(ptrdiff_t rows, ptrdiff_t i) { return rows * i / panels(rows); }

/* dst[c*ldd + r] = src[r*lds + c] */
static TARGET void transpose(float *dst, ptrdiff_t ldd, const float *src, ptrdiff_t lds,
			     ptrdiff_t rows, ptrdiff_t cols)
{
	ptrdiff_t rows4 = rows & ~(ptrdiff_t)3, cols4 = cols & ~(ptrdiff_t)3;
	for (ptrdiff_t c = 0; c < cols4; c += 4)
		for (ptrdiff_t r = 0; r < rows4; r += 4)
			transpose4(dst + c * ldd + r, ldd, src + r * lds + c, lds);
	for (ptrdiff_t c = 0; c < cols; c++)
		for (ptrdiff_t r = c < cols4 ? rows4 : 0; r < rows; r++)
			dst[c * ldd + r] = src[r * lds + c];
}

/* Packs a panel of m rows from A[r*lda + k]. */
static TARGET void pack_rows(float *dst, const float *a, ptrdiff_t lda, ptrdiff_t m, ptrdiff_t k)
{
	for (ptrdiff_t r = 0; r < m; r++) {
		const float *src = a + r * lda;
		float *d = dst + 4 * r;
		ptrdiff_t j = 0;
		for (; j + 4 <= k; j += 4, d += 4 * m)
			memcpy(d, src + j, 4 * sizeof *d);
		for (; j < k; j++)
			*d++ = src[j];
	}
}

/* Packs a panel of m rows from A[k*lda + r]. */
static TARGET void pack_columns(float *dst, const float *a, ptrdiff_t lda, ptrdiff_t m, ptrdiff_t k)
{
	for (ptrdiff_t j = 0; j < k; j += 4, dst += 4 * m)
		transpose(dst, 4, a + j * lda, lda, min(4, k - j), m);
}

/* Packs n < NR columns of B, k rows at stride ldb, and fills up with zeros. */
static TARGET void pack_narrow(float *dst, const float *b, ptrdiff_t ldb, ptrdiff_t n, ptrdiff_t k)
{
	for (ptrdiff_t j = 0; j < k; j++, dst += NR, b += ldb) {
		for (ptrdiff_t i = 0; i < n; i++)
			dst[i] = b[i];
		for (ptrdiff_t i = n; i < NR; i++)
			dst[i] = 0;
	}
}

/* Copies, or with add set adds, n columns of a tile to C. */
static TARGET void put_narrow(float *c, ptrdiff_t ldc, const float *t, ptrdiff_t m, ptrdiff_t n, int add)
{
	for (ptrdiff_t r = 0; r < m; r++, c += ldc, t += NR)
		for (ptrdiff_t i = 0; i < n; i++)
			c[i] = add ? c[i] + t[i] : t[i];
}
