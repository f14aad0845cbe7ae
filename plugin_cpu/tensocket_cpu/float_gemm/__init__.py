"""Products of float32 and float64 matrices in the backend's own code, with the interface of BLAS's ``gemm``."""
