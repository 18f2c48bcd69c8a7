import Broker
import BrokerProviders
import BrokerRelay
import Synchronization

extension RelayCertificate {
    /// Creates the relay's form of a certificate.
    init(_ certificate: ClientCertificate) {
        self.init(
            id: certificate.id, thumbprint: certificate.thumbprint, chain: certificate.chain, key: certificate.key)
    }
}

/// Replaces certificates after their files change; the files are read every ten seconds and on demand.
///
/// The previous certificate stays in use in two cases: the new files do not load; or the new certificate is invalid at present
/// and the previous certificate is valid.
final class CertificateWatch: Sendable {
    static let interval = Duration.seconds(10)
    /// The largest number of bytes of a file.
    private static let limit = 1 << 20

    /// The texts of each pair of files, as they were read.
    typealias Texts = [ClientIdentity.Files: Result<Pair, FileFault>]

    /// The texts of a certificate and its key.
    struct Pair: Sendable {
        let certificate: [UInt8]
        let key: [UInt8]
    }

    private let current: @Sendable () -> ShownCertificates
    private let digest: @Sendable ([UInt8]) -> Digest
    private let now: @Sendable () -> WallTime
    private let log: ProcessLog
    private let failures: CounterSeries
    /// Guards the state of each pair of files at the last reading.
    private let seen = Mutex<[ClientIdentity.Files: Seen]>([:])

    private struct Seen {
        var digest: Digest
        /// Whether the last reading refused to use the new certificate, because the certificate was invalid then.
        ///
        /// Each reading tries such a pair of files again, because the certificate may become valid, or the previous one may
        /// expire.
        var isHeld = false
    }

    init(
        current: @escaping @Sendable () -> ShownCertificates, digest: @escaping @Sendable ([UInt8]) -> Digest,
        now: @escaping @Sendable () -> WallTime, log: ProcessLog, metrics: MetricsRegistry
    ) {
        self.current = current
        self.digest = digest
        self.now = now
        self.log = log
        failures = metrics.counter("coatcheck_certificate_reload_failures_total", [])
    }

    /// Reads all files of certificates and keys.
    ///
    /// The call blocks the thread.
    func read() -> Texts {
        var texts: Texts = [:]
        for files in Set(identities.map(\.identity.files)) {
            do throws(FileFault) {
                texts[files] = .success(
                    Pair(
                        certificate: try BoundedFile.load(files.certificate, limit: Self.limit),
                        key: try BoundedFile.load(files.key, limit: Self.limit)))
            } catch { texts[files] = .failure(error) }
        }
        return texts
    }

    /// Loads the certificates from texts that `read` returned.
    ///
    /// With `isAsked`, unchanged texts are loaded again, and their faults are reported again.
    func take(_ texts: Texts, isAsked: Bool) {
        seen.withLock { seen in
            for (files, text) in texts {
                let name: [UInt8] =
                    switch text {
                    case .success(let pair): pair.certificate + [0] + pair.key
                    case .failure(let fault): Array("\(fault)".utf8)
                    }
                let digest = digest(name)
                let before = seen[files]
                let isKnown = before?.digest == digest
                guard !isKnown || isAsked || before?.isHeld == true else { continue }
                let isHeld = take(text, of: files, isTold: isKnown && !isAsked)
                seen[files] = Seen(digest: digest, isHeld: isHeld)
            }
        }
    }

    /// Loads a pair of files and uses its certificate.
    ///
    /// Returns true if the new certificate is left unused, because it is invalid at present and the previous certificate is
    /// valid. With `isTold`, an earlier reading has logged this, so this call does not repeat the log line.
    private func take(_ text: Result<Pair, FileFault>, of files: ClientIdentity.Files, isTold: Bool) -> Bool {
        let owners = identities.filter { $0.identity.files == files }
        let certificate: ClientCertificate
        do {
            let pair = try text.get()
            certificate = try ClientCertificate(certificate: pair.certificate, key: pair.key)
        } catch {
            let words =
                switch error {
                case ClientCertificate.Failure.doesNotFit: "the key \(error)"
                case ClientCertificate.Failure.noKey: "the key's file \(error)"
                case let fault as FileFault: "a file of it \(fault)"
                default: "its file \(error)"
                }
            fail(words, owners.first?.name)
            return false
        }
        let moment = now()
        let fault = certificate.fault(at: moment)
        var held: [String] = []
        for owner in owners {
            let current = owner.identity.current
            if fault != nil, current.id != certificate.id, current.fault(at: moment) == nil {
                held.append(owner.name)
            } else if owner.identity.renew(certificate) {
                log.write(
                    .notice, "client certificate reloaded",
                    [("shown_by", owner.name), ("not_after", certificate.validUntil.rfc3339)])
            }
        }
        guard let first = held.first, let fault else { return false }
        if !isTold { fail("its file holds one that \(fault)", first) }
        return true
    }

    private func fail(_ words: String, _ owner: String?) {
        failures.increment(by: 1)
        log.write(
            .error, "client certificate not reloaded",
            [("shown_by", owner ?? ""), ("detail", "\(words); the previous certificate stays in use")])
    }

    private var identities: [(name: String, identity: ClientIdentity)] {
        let shown = current()
        return shown.clients.map { ("providers.\($0.provider).clients.\($0.client)", $0.identity) }
            + shown.upstreams.map { ("upstreams.\($0.name.text)", $0.identity) }
    }
}
