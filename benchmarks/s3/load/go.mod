module s3load

go 1.22
