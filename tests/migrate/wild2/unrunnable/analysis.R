library(reticulate)
py_install("petastorm")
ps <- import("petastorm")
r <- ps$make_batch_reader("file:///tmp/x")
