exec java -cp "$1:$1/postgresql.jar" Test "jdbc:postgresql://$PGHOST:$PGPORT/$PGDATABASE?user=$PGUSER"
