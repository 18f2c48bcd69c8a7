import BrokerHTTP

/// The sockets that a service manager has passed to the process, according to the environment (`sd_listen_fds(3)`).
///
/// systemd passes the sockets of its socket units, and compatible managers do the same. `ListeningSocket` checks the
/// descriptors themselves.
struct PassedSockets: Sendable, Equatable {
    /// The variables that describe passed sockets.
    ///
    /// `LISTEN_PIDFDID` is removed unread.
    static let variables = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "LISTEN_PIDFDID"]

    /// The number of the first descriptor that was passed.
    private static let first: Int32 = 3

    /// The descriptor of each listener that was passed.
    let descriptors: [ListenerName: Int32]

    /// Reads the environment of the process `pid`.
    ///
    /// Without `LISTEN_FDS` and `LISTEN_PID`, no descriptor was passed, and `descriptors` is empty.
    init(_ environment: [String: String], pid: Int32) throws(StartFailure) {
        let (countText, pidText) = (environment["LISTEN_FDS"], environment["LISTEN_PID"])
        guard countText != nil || pidText != nil else {
            descriptors = [:]
            return
        }
        guard let countText else { throw StartFailure("LISTEN_PID is set and LISTEN_FDS is not: no socket is named") }
        guard let pidText else { throw StartFailure("LISTEN_FDS is set and LISTEN_PID is not: whose are the sockets?") }
        guard let named = Self.number(pidText) else {
            throw StartFailure("LISTEN_PID is no process id: \(Self.shown(pidText))")
        }
        guard named == pid else {
            throw StartFailure(
                "LISTEN_PID is \(named), and this process is \(pid): the sockets are handed over to another process; "
                    + "a script in between has to `exec` the broker")
        }
        guard let count = Self.number(countText) else {
            throw StartFailure("LISTEN_FDS is no number: \(Self.shown(countText))")
        }
        guard count <= ListenerName.allCases.count else {
            throw StartFailure(
                "LISTEN_FDS is \(count): there are \(ListenerName.allCases.count) listeners at most, "
                    + ListenerName.allCases.map(\.rawValue).joined(separator: ", "))
        }
        // Keep empty parts, so that `LISTEN_FDNAMES` without text is one empty name.
        let names =
            environment["LISTEN_FDNAMES"].map { $0.split(separator: ":", omittingEmptySubsequences: false) }
            ?? Array(repeating: "", count: Int(count))
        guard names.count == count || count == 0 else {
            throw StartFailure("LISTEN_FDNAMES has \(names.count) names, and LISTEN_FDS is \(count)")
        }
        var descriptors: [ListenerName: Int32] = [:]
        for (name, descriptor) in zip(names.prefix(Int(count)), Self.first...) {
            guard let listener = Self.listener(name) else {
                throw StartFailure(
                    "LISTEN_FDNAMES: \(Self.shown(name)) is no listener; FileDescriptorName= is one of "
                        + ListenerName.allCases.map(\.rawValue).joined(separator: ", "))
            }
            guard descriptors.updateValue(descriptor, forKey: listener) == nil else {
                throw StartFailure(
                    "LISTEN_FDNAMES: two sockets for the \(listener.rawValue) listener; "
                        + "one without a name is the public one")
            }
        }
        self.descriptors = descriptors
    }

    /// Returns the listener of a socket.
    ///
    /// A socket without a name belongs to the public listener.
    private static func listener(_ name: Substring) -> ListenerName? {
        // For a socket without a configured name, systemd uses the unit's name, and its library uses `unknown`.
        name.isEmpty || name == "unknown" || name.hasSuffix(".socket") ? .public : ListenerName(rawValue: String(name))
    }

    private static func number(_ text: String) -> Int32? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int32(text)
    }

    private static func shown(_ text: some StringProtocol) -> String {
        "`" + String(String.UnicodeScalarView(text.unicodeScalars.prefix(40).map { $0.value < 0x20 ? "?" : $0 })) + "`"
    }
}
