/* A BLAS that counts its calls and takes nothing that the standard forbids; each element is a sum in double. */
#ifndef CBLAS_H
#define CBLAS_H
#include <stdlib.h>

typedef enum CBLAS_LAYOUT { CblasRowMajor = 101, CblasColMajor = 102 } CBLAS_LAYOUT;
typedef enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 } CBLAS_TRANSPOSE;

extern int reference_calls;

#define REFERENCE_GEMM(name, type) \
    void name(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, type alpha, \
        const type *a, int lda, const type *b, int ldb, type beta, type *c, int ldc)

REFERENCE_GEMM(cblas_sgemm, float);
REFERENCE_GEMM(cblas_dgemm, double);

#ifdef REFERENCE_BODY
#define REFERENCE_DEFINE(name, type) REFERENCE_GEMM(name, type) \
{ \
    const int row = layout == CblasRowMajor, at = (ta == CblasNoTrans) == row, bt = (tb == CblasNoTrans) == row; \
    if (lda < (at ? k : m) || ldb < (bt ? n : k) || ldc < (row ? n : m) || lda < 1 || ldb < 1 || ldc < 1) abort(); \
    ++reference_calls; \
    for (int i = 0; i < m; ++i) \
        for (int j = 0; j < n; ++j) { \
            double sum = 0; \
            type *const to = c + (row ? i * ldc + j : j * ldc + i); \
            for (int l = 0; l < k; ++l) \
                sum += (double)a[at ? i * lda + l : l * lda + i] * b[bt ? l * ldb + j : j * ldb + l]; \
            *to = (type)(alpha * sum + (beta == 0 ? 0 : beta * *to)); \
        } \
}
int reference_calls;
REFERENCE_DEFINE(cblas_sgemm, float)
REFERENCE_DEFINE(cblas_dgemm, double)
#endif
#endif
