NODE_PATH="$1/node_modules" node --test "$(dirname "$0")/birds.test.js" && echo ok
