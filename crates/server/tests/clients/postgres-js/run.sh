NODE_PATH="$1/node_modules" exec node "$(dirname "$0")/test.js"
