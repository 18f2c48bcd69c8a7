import Glibc

/// Who may read a file that holds a secret.
enum FileMode {
    /// Returns whether others than its owner and this process's own groups may read the file, or anybody else write it.
    ///
    /// What a link points to is judged: a mounted Kubernetes Secret is links to files of root, 0440, with the pod's group.
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
