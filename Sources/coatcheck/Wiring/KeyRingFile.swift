import Broker
import BrokerVault

/// Reads the key ring of a running broker, at its start and at each SIGHUP.
enum KeyRingFile {
    /// Returns the ring; throws a sentence that names no key.
    static func load(_ path: String) throws(StartFailure) -> KeyRing {
        guard let bytes = BoundedFile.read(path, limit: 65_536) else {
            throw StartFailure("the key file \(path) cannot be read")
        }
        do throws(KeyRingFailure) {
            return try KeyRing.parse(bytes)
        } catch {
            throw StartFailure("\(path): \(error)")
        }
    }
}
