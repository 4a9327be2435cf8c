//! Which file system a path is on, after `/proc/self/mountinfo`.

use std::path::{Path, PathBuf};

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its type, as mount(8) names it.
    pub kind: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Major and minor number of the device; major 0 is none.
    pub device: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
}

/// The file system that a path without symbolic links is on, given the text of
/// `/proc/self/mountinfo`: that whose point is the longest prefix; a later mount hides an earlier
/// one.
#[must_use]
pub fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mut best: Option<Mount> = None;
    for mount in mountinfo.lines().filter_map(parse_mount).filter(|mount| path.starts_with(&mount.point)) {
        let length = |mount: &Mount| mount.point.components().count();
        if best.as_ref().is_none_or(|best| length(&mount) >= length(best)) {
            best = Some(mount);
        }
    }
    best
}

/// `27 1 254:0 / /mount/point rw,relatime shared:1 - ext4 /dev/vda rw,discard`
fn parse_mount(line: &str) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let device = mount.next()?.to_owned();
    let point = unescaped(mount.nth(1)?).into();
    let mount_options = mount.next()?;
    let mut system = system.split(' ');
    let kind = system.next()?.to_owned();
    let system_options = system.nth(1).unwrap_or_default();
    let mut options: Vec<String> = Vec::new();
    for option in mount_options.split(',').chain(system_options.split(',')).filter(|option| !option.is_empty()) {
        if !options.iter().any(|known| known == option) {
            options.push(option.to_owned());
        }
    }
    Some(Mount { kind, point, device, options })
}

/// Spaces, tabs, ends of lines and backslashes are three octal digits behind a backslash.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts_and_the_later_of_two() {
        let mountinfo = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
             30 27 0:40 / /data rw - tmpfs tmpfs rw,size=4k\n\
             31 27 8:1 / /data rw,noatime shared:7 - xfs /dev/sda1 rw,attr2\n\
             32 27 8:2 / /with\\040space ro - ext4 /dev/sda2 ro\n";
        let at = |path: &str| mount_of(mountinfo, Path::new(path)).unwrap();
        assert_eq!(at("/home").kind, "ext4");
        assert_eq!(at("/database").point, Path::new("/"));
        let data = at("/data/birds");
        assert_eq!((data.kind.as_str(), data.device.as_str()), ("xfs", "8:1"));
        assert_eq!(data.options, ["rw", "noatime", "attr2"]);
        assert_eq!(at("/with space/x").options, ["ro"]);
    }
}
