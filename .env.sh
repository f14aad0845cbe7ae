export PYTHONPATH=/work/rewrite/plugins:/work/rewrite/core:/work/rewrite/frontend:/work/rewrite/plugin_cpu:/work/rewrite/plugin_opencl:/work/rewrite/plugin_cuda:/work/rewrite/conformance
export PATH=/work/main/.venv/bin:$PATH
cd /work/rewrite
