//! A library with LMDB's functions, loaded at run time: ours, or LMDB itself.
#![allow(unsafe_code, reason = "calls functions of C")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Val {
    pub(crate) size: usize,
    pub(crate) data: *const c_void,
}

#[repr(C)]
#[derive(Default, Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) psize: c_uint,
    pub(crate) depth: c_uint,
    pub(crate) branch: usize,
    pub(crate) leaf: usize,
    pub(crate) overflow: usize,
    pub(crate) entries: usize,
}

pub(crate) type Handle = *mut c_void;
pub(crate) type Compare = extern "C" fn(*const Val, *const Val) -> c_int;

macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of one library.
        pub(crate) struct Library {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            /// Loads a library whose names are seen by nobody else. `None` if it is not there.
            pub(crate) fn load(path: &Path) -> Option<Self> {
                let path = CString::new(path.to_str()?).ok()?;
                // SAFETY: a text with a zero byte at its end; what such libraries run when they are
                // loaded changes nothing of this program's.
                let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
                if handle.is_null() {
                    return None;
                }
                Some(Self {
                    $($name: {
                        let name = CString::new(concat!("mdb_", stringify!($name))).unwrap();
                        // SAFETY: an open library, and a text.
                        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
                        assert!(!found.is_null(), "{} lacks {}", path.to_str().unwrap(), name.to_str().unwrap());
                        // SAFETY: the library offers it with this signature.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    version(*mut c_int, *mut c_int, *mut c_int) -> *const c_char;
    env_create(*mut Handle) -> c_int;
    env_open(Handle, *const c_char, c_uint, libc::mode_t) -> c_int;
    env_close(Handle);
    env_set_mapsize(Handle, usize) -> c_int;
    env_set_maxdbs(Handle, c_uint) -> c_int;
    txn_begin(Handle, Handle, c_uint, *mut Handle) -> c_int;
    txn_commit(Handle) -> c_int;
    txn_abort(Handle);
    dbi_open(Handle, *const c_char, c_uint, *mut c_uint) -> c_int;
    stat(Handle, c_uint, *mut Stat) -> c_int;
    drop(Handle, c_uint, c_int) -> c_int;
    set_compare(Handle, c_uint, Compare) -> c_int;
    set_dupsort(Handle, c_uint, Compare) -> c_int;
    get(Handle, c_uint, *mut Val, *mut Val) -> c_int;
    put(Handle, c_uint, *mut Val, *mut Val, c_uint) -> c_int;
    del(Handle, c_uint, *mut Val, *mut Val) -> c_int;
    cursor_open(Handle, c_uint, *mut Handle) -> c_int;
    cursor_close(Handle);
    cursor_get(Handle, *mut Val, *mut Val, c_uint) -> c_int;
    cursor_put(Handle, *mut Val, *mut Val, c_uint) -> c_int;
    cursor_del(Handle, c_uint) -> c_int;
    cursor_count(Handle, *mut usize) -> c_int;
}

/// Our shared library, as an example that cargo builds beside this test.
pub(crate) fn ours() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.ancestors().nth(2).unwrap().join("examples/liblibrary.so");
    assert!(
        library.exists(),
        "{} is not there: with --test, cargo has to be told to build examples as well",
        library.display()
    );
    library
}

/// LMDB's sources: `COLIBRI_TEST_LMDB_SOURCES`, or those that a crate brings which the benchmark may
/// be built with; `cargo fetch` brings them.
pub(crate) fn sources_of_lmdb() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("COLIBRI_TEST_LMDB_SOURCES") {
        return Some(path.into());
    }
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?.flatten();
    let crates = registries.filter_map(|registry| std::fs::read_dir(registry.path()).ok()).flatten().flatten();
    let ours = crates.filter(|of| of.file_name().to_string_lossy().starts_with("lmdb-master-sys-"));
    ours.map(|of| of.path().join("lmdb/libraries/liblmdb")).filter(|sources| sources.join("mdb.c").exists()).max()
}

/// LMDB itself: `COLIBRI_TEST_LIBLMDB`, or the system's if it is new enough, or one that is compiled
/// here.
pub(crate) fn lmdb(dir: &Path) -> Option<Library> {
    if let Some(path) = std::env::var_os("COLIBRI_TEST_LIBLMDB") {
        return Library::load(Path::new(&path));
    }
    let installed = Library::load(Path::new("liblmdb.so.0"));
    if let Some(installed) = installed.filter(|library| library.patch_version() >= PATCH_MIN) {
        return Some(installed);
    }
    let (sources, made) = (sources_of_lmdb()?, dir.join("liblmdb-compiled.so"));
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-O2", "-w", "-fPIC", "-shared", "-pthread", "-o"]).arg(&made);
    compiler.arg(sources.join("mdb.c")).arg(sources.join("midl.c"));
    compiler.status().ok().filter(std::process::ExitStatus::success).and_then(|_| Library::load(&made))
}

/// Cursors of older ones do not see all that others remove.
pub(crate) const PATCH_MIN: c_int = 30;

impl Library {
    /// The last part of its version.
    pub(crate) fn patch_version(&self) -> c_int {
        let [mut major, mut minor, mut patch] = [0; 3];
        // SAFETY: pointers to what lives here.
        unsafe { (self.version)(&raw mut major, &raw mut minor, &raw mut patch) };
        patch
    }
}
