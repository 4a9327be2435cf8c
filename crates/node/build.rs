//! Tells the linker that Node.js has the symbols of Node-API.

fn main() {
    napi_build::setup();
}
