import Broker

/// Reads the certificates' files again, without waiting for files that hang.
struct CertificateRereading: Sendable {
    private struct Texts: Sendable {
        let texts: CertificateWatch.Texts
        let isAsked: Bool
    }

    private let watch: CertificateWatch
    private let clock: BrokerClock
    private let reading: Rereading<Texts>

    init(_ watch: CertificateWatch, _ clock: BrokerClock, log: ProcessLog) {
        self.watch = watch
        self.clock = clock
        reading = Rereading(
            sleep: clock.sleep,
            isLate: {
                log.write(
                    .warning, "certificate files still reading",
                    [
                        (
                            "detail",
                            "a certificate file does not answer, for example on a hanging mount; the present certificates stay in use"
                        )
                    ])
            },
            take: { watch.take($0.texts, isAsked: $0.isAsked) })
    }

    /// Reads the files, and returns when the result was used or the reading hangs.
    func look(isAsked: Bool) async {
        // If a reading hangs, skip the periodic reading.
        guard isAsked || !reading.isReading else { return }
        _ = await reading.run { [watch] in Texts(texts: watch.read(), isAsked: isAsked) }
    }

    /// The periodic reading, every ten seconds.
    var service: RepeatedWork {
        RepeatedWork(clock: clock, delay: CertificateWatch.interval) {
            await look(isAsked: false)
            return CertificateWatch.interval
        }
    }
}
