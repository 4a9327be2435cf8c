"$1/test" -test.parallel 4 && echo ok
