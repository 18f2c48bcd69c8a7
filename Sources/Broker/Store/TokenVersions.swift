/// Tells which versions of tokens sessions have, whoever refreshed them.
///
/// A store that serves one process has nothing to tell that the process does not know, and does not conform.
package protocol TokenVersions: Sendable {
    /// Returns the versions of those that are known and not ended.
    func tokenVersions(of tokens: [Digest]) async throws(StoreFailure) -> [(token: Digest, version: Int64)]
}
