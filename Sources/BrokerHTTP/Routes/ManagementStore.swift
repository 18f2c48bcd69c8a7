package import Broker

/// The operations on the store and the keys that the management listener offers, as closures that the executable provides.
package struct ManagementStore: Sendable {
    /// A backup that was written and verified.
    package struct Backup: Sendable {
        package let bytes: Int64
        package let sessions: Int
        package let schema: Int
        /// Whether the key ring opens the values in the backup, and a sentence about the result.
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

    /// A key of the key ring, or a key that sealed stored values but is missing in the key ring.
    package struct Key: Sendable {
        /// The present use of a key.
        ///
        /// - `seals`: the key seals new values, and opens stored ones
        /// - `opens`: the key only opens stored values
        /// - `waits`: the key begins to seal at a later time
        /// - `missing`: stored values name the key, but the key ring does not contain it
        package enum Use: String, Sendable { case seals, opens, waits, missing }

        package let id: String
        package let use: Use
        /// The time when a waiting key begins to seal.
        package let sealsFrom: WallTime?

        package init(id: String, use: Use, sealsFrom: WallTime? = nil) {
            self.id = id
            self.use = use
            self.sealsFrom = sealsFrom
        }
    }

    /// The reason why a backup failed, or why a key is refused, as a sentence for the operator.
    package struct Refusal: Error, Sendable {
        package let text: String

        package init(_ text: String) { self.text = text }
    }

    package let admin: AdminStore
    /// Returns the ring's keys, newest first.
    package let keys: @Sendable () -> [Key]
    /// Writes a backup to a new file; nil if the engine has its own backup tools.
    package let backUp: (@Sendable (_ file: String) async throws(Refusal) -> Backup)?
    /// Reads the public key of an export, in PEM; nil if exports are switched off.
    package let exportKey: (@Sendable (_ pem: String) throws(Refusal) -> any ExportSealing)?

    package init(
        admin: AdminStore, keys: @escaping @Sendable () -> [Key],
        backUp: (@Sendable (_ file: String) async throws(Refusal) -> Backup)?,
        exportKey: (@Sendable (_ pem: String) throws(Refusal) -> any ExportSealing)? = nil
    ) {
        self.exportKey = exportKey
        self.admin = admin
        self.keys = keys
        self.backUp = backUp
    }
}
