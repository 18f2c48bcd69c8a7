package import Broker

/// What the management listener does with the store and the keys, as closures that the executable fills in.
package struct ManagementStore: Sendable {
    /// A backup that was written and looked through.
    package struct Backup: Sendable {
        package let bytes: Int64
        package let sessions: Int
        package let schema: Int
        /// Whether the key ring opens it, and a sentence about that.
        package let opens: Bool
        package let ring: String

        package init(bytes: Int64, sessions: Int, schema: Int, opens: Bool, ring: String) {
            self.bytes = bytes
            self.sessions = sessions
            self.schema = schema
            self.opens = opens
            self.ring = ring
        }
    }

    /// A key of the ring, or one that rows name and the ring does not have.
    package struct Key: Sendable {
        /// What it is for now.
        package enum Use: String, Sendable { case seals, opens, waits, missing }

        package let id: String
        package let use: Use
        /// From when on it seals, where it waits.
        package let sealsFrom: WallTime?

        package init(id: String, use: Use, sealsFrom: WallTime? = nil) {
            self.id = id
            self.use = use
            self.sealsFrom = sealsFrom
        }
    }

    /// Why a backup was not written, in a sentence for the operator.
    package struct Refusal: Error, Sendable {
        package let text: String

        package init(_ text: String) { self.text = text }
    }

    package let admin: AdminStore
    /// Returns the ring's keys, newest first.
    package let keys: @Sendable () -> [Key]
    /// Writes a backup to a new file; nil where the engine has means of its own.
    package let backUp: (@Sendable (_ file: String) async throws(Refusal) -> Backup)?

    package init(
        admin: AdminStore, keys: @escaping @Sendable () -> [Key],
        backUp: (@Sendable (_ file: String) async throws(Refusal) -> Backup)?
    ) {
        self.admin = admin
        self.keys = keys
        self.backUp = backUp
    }
}
