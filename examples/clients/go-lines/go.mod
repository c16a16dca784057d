module example/lines

go 1.26
