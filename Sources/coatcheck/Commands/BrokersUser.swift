import Glibc

/// The user who owns the store's files, for commands that root runs.
///
/// Files that the command makes must belong to the broker's user, or the broker cannot start.
struct BrokersUser: Sendable, CustomStringConvertible {
    private let user: uid_t
    private let group: gid_t
    let description: String

    /// The end of an error message about a file that was read as this user instead of root.
    var asWhom: String { "; read as \(self), whose the store is" }

    /// Finds the owner of the database, or of the nearest existing folder above it.
    ///
    /// Returns a user only if root runs the command, the store is SQLite, and another user owns the database.
    init?(of settings: StoreSettings) {
        guard geteuid() == 0, case .sqlite(let path, _) = settings else { return nil }
        var place = path
        var status = stat()
        while stat(place, &status) != 0 {
            guard errno == ENOENT, let slash = place.lastIndex(of: "/") else { return nil }
            place = slash == place.startIndex ? "/" : String(place[..<slash])
            // The root folder always exists.
            if place == "/", stat(place, &status) != 0 { return nil }
        }
        guard status.st_uid != 0 else { return nil }
        user = status.st_uid
        group = getpwuid(user)?.pointee.pw_gid ?? status.st_gid
        description = Self.name(of: user)
    }

    /// Runs a step as the store's owner, and returns to root afterwards.
    ///
    /// The step must run alone, because the whole process has the owner's rights meanwhile.
    func running<Value>(_ step: () async throws -> Value) async throws -> Value {
        let before = (group: getegid(), others: Self.groups())
        guard setgroups(1, [group]) == 0, setegid(group) == 0, seteuid(user) == 0 else {
            let reason = String(cString: strerror(errno))
            Self.beRoot(before.group, before.others)
            throw ManagementClient.fault(
                "the store belongs to \(self), and root cannot become this user here: \(reason)")
        }
        defer { Self.beRoot(before.group, before.others) }
        return try await step()
    }

    /// Runs a step as the owner of the store.
    ///
    /// If no switch is needed, the step runs as the caller and its argument is nil.
    static func running<Value>(
        _ settings: StoreSettings, _ step: (BrokersUser?) async throws -> Value
    ) async throws -> Value {
        guard let user = BrokersUser(of: settings) else { return try await step(nil) }
        return try await user.running { try await step(user) }
    }

    /// Returns a user's name, or the number for a user without a name.
    static func name(of user: uid_t) -> String {
        guard let entry = getpwuid(user), let name = entry.pointee.pw_name else { return "user \(user)" }
        return String(cString: name)
    }

    private static func groups() -> [gid_t] {
        let count = getgroups(0, nil)
        guard count > 0 else { return [] }
        var list = [gid_t](repeating: 0, count: Int(count))
        return Array(list.prefix(Int(max(getgroups(count, &list), 0))))
    }

    private static func beRoot(_ group: gid_t, _ others: [gid_t]) {
        _ = seteuid(0)
        _ = setegid(group)
        _ = setgroups(others.count, others)
    }
}
