import Glibc

/// The mode of a file with a secret.
enum FileMode {
    /// Returns whether the file's mode gives rights to too many users. This is so in three cases:
    /// - Users other than the owner and the file's group have any right.
    /// - The file's group may write or execute the file.
    /// - The file's group may read the file, and this process does not belong to that group.
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
