import BrokerVault

/// Reads the key ring for a broker that starts or runs.
enum KeyRingFile {
    /// Returns the ring of a file; throws a sentence that contains no key.
    static func load(_ path: String) throws(StartFailure) -> KeyRing { try ring(bytes(path), of: path) }

    /// Returns the ring from a file or a variable.
    static func load(_ settings: KeySettings) throws(StartFailure) -> KeyRing {
        try ring(bytes(settings), of: settings.place)
    }

    /// Returns the ring's text.
    static func bytes(_ settings: KeySettings) throws(StartFailure) -> [UInt8] {
        switch settings {
        case .file(let path): try bytes(path)
        case .variable(_, let text): Array(text.utf8)
        }
    }

    static func ring(_ bytes: [UInt8], of place: String) throws(StartFailure) -> KeyRing {
        do throws(KeyRingFailure) {
            return try KeyRing.parse(bytes)
        } catch {
            throw StartFailure("\(place): \(error)")
        }
    }

    private static func bytes(_ path: String) throws(StartFailure) -> [UInt8] {
        do throws(FileFault) { return try BoundedFile.load(path, limit: 65_536) } catch {
            throw StartFailure("the key file \(path) cannot be read: it \(error)")
        }
    }
}
