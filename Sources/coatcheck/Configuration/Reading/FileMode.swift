import Glibc

/// The mode of a file with a secret.
enum FileMode {
    /// Returns whether the file's mode gives rights to too many users.
    ///
    /// The file's group may read the file if this process belongs to this group. Every other right of the group or of other users
    /// is too much.
    ///
    /// For a link, its target is checked. A mounted Kubernetes Secret consists of links to root's files with mode 0440 and the
    /// pod's group.
    static func isOpenToOthers(_ path: String) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return false }
        if status.st_mode & 0o037 != 0 { return true }
        return status.st_mode & 0o040 != 0 && !groups.contains(status.st_gid)
    }

    private static var groups: Set<gid_t> {
        let count = getgroups(0, nil)
        guard count > 0 else { return [getegid()] }
        var list = [gid_t](repeating: 0, count: Int(count))
        let found = getgroups(count, &list)
        return Set(list.prefix(Int(max(found, 0)))).union([getegid()])
    }
}
