module colibri

go 1.19
