import BrokerHTTP
import Testing

@testable import coatcheck

/// The sockets that a service manager hands over, named by environment variables.
@Suite("Listening sockets from a service manager", .timeLimit(.minutes(1)))
struct PassedSocketsTests {
    private static let pid: Int32 = 4321

    struct Refused: Sendable, CustomTestStringConvertible {
        let environment: [String: String]
        /// The names that the message has to contain.
        let names: String
        var testDescription: String { names }
    }

    static let refused: [Refused] = [
        Refused(environment: ["LISTEN_FDS": "1"], names: "LISTEN_PID is not"),
        Refused(environment: ["LISTEN_PID": "4321"], names: "LISTEN_FDS is not"),
        Refused(environment: ["LISTEN_FDS": "1", "LISTEN_PID": "4320"], names: "LISTEN_PID is 4320"),
        Refused(environment: ["LISTEN_FDS": "1", "LISTEN_PID": ""], names: "LISTEN_PID is no process id: ``"),
        Refused(environment: ["LISTEN_FDS": "1", "LISTEN_PID": "+4321"], names: "`+4321`"),
        Refused(environment: ["LISTEN_FDS": "1", "LISTEN_PID": "99999999999"], names: "`99999999999`"),
        Refused(environment: ["LISTEN_FDS": "", "LISTEN_PID": "4321"], names: "LISTEN_FDS is no number: ``"),
        Refused(environment: ["LISTEN_FDS": "-1", "LISTEN_PID": "4321"], names: "`-1`"),
        Refused(environment: ["LISTEN_FDS": "1\n2", "LISTEN_PID": "4321"], names: "`1?2`"),
        Refused(environment: ["LISTEN_FDS": "4", "LISTEN_PID": "4321"], names: "LISTEN_FDS is 4"),
        Refused(environment: ["LISTEN_FDS": "2147483647", "LISTEN_PID": "4321"], names: "LISTEN_FDS is 2147483647"),
        Refused(
            environment: ["LISTEN_FDS": "1", "LISTEN_PID": "4321", "LISTEN_FDNAMES": "metrics"], names: "`metrics`"),
        Refused(
            environment: ["LISTEN_FDS": "1", "LISTEN_PID": "4321", "LISTEN_FDNAMES": "Public"], names: "`Public`"),
        Refused(
            environment: ["LISTEN_FDS": "2", "LISTEN_PID": "4321", "LISTEN_FDNAMES": "public"], names: "has 1 names"),
        Refused(
            environment: ["LISTEN_FDS": "1", "LISTEN_PID": "4321", "LISTEN_FDNAMES": "public:backend"],
            names: "has 2 names"),
        Refused(
            environment: ["LISTEN_FDS": "2", "LISTEN_PID": "4321", "LISTEN_FDNAMES": "public:public"],
            names: "two sockets for the public listener"),
        Refused(
            environment: ["LISTEN_FDS": "2", "LISTEN_PID": "4321", "LISTEN_FDNAMES": ":public"],
            names: "two sockets for the public listener"),
        Refused(environment: ["LISTEN_FDS": "2", "LISTEN_PID": "4321"], names: "two sockets for the public listener"),
    ]

    @Test(
        "LISTEN_FDS, LISTEN_PID or LISTEN_FDNAMES is malformed, missing or for another process → an error names the fault",
        arguments: refused)
    func refuses(_ row: Refused) {
        do {
            _ = try PassedSockets(row.environment, pid: Self.pid)
            Issue.record("taken: \(row.environment)")
        } catch { #expect("\(error)".contains(row.names), "\(error)") }
    }

    struct Taken: Sendable, CustomTestStringConvertible {
        let environment: [String: String]
        let descriptors: [ListenerName: Int32]
        var testDescription: String { "\(environment)" }
    }

    static let taken: [Taken] = [
        Taken(environment: [:], descriptors: [:]),
        Taken(environment: ["LISTEN_FDNAMES": "public"], descriptors: [:]),
        Taken(environment: ["LISTEN_FDS": "0", "LISTEN_PID": "4321"], descriptors: [:]),
        Taken(environment: ["LISTEN_FDS": "1", "LISTEN_PID": "4321"], descriptors: [.public: 3]),
        Taken(
            environment: ["LISTEN_FDS": "1", "LISTEN_PID": "4321", "LISTEN_FDNAMES": ""], descriptors: [.public: 3]),
        Taken(
            environment: ["LISTEN_FDS": "1", "LISTEN_PID": "4321", "LISTEN_FDNAMES": "unknown"],
            descriptors: [.public: 3]),
        Taken(
            environment: ["LISTEN_FDS": "1", "LISTEN_PID": "4321", "LISTEN_FDNAMES": "coatcheck.socket"],
            descriptors: [.public: 3]),
        Taken(
            environment: ["LISTEN_FDS": "3", "LISTEN_PID": "4321", "LISTEN_FDNAMES": "management::backend"],
            descriptors: [.management: 3, .public: 4, .backend: 5]),
    ]

    @Test(
        "Passed sockets have listeners' names → they become these listeners; one has another name or none → the public listener",
        arguments: taken)
    func takes(_ row: Taken) throws {
        #expect(try PassedSockets(row.environment, pid: Self.pid).descriptors == row.descriptors)
    }
}
