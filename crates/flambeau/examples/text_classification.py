"""The PyTorch script that text_classification.rs mirrors."""

import torch
import twin
from torch import nn, optim
from torch.utils.data import DataLoader, random_split

ROWS, WIDTH, BATCH = 2048, 16, 32


def english(n):
    ones = (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen"
    ).split()
    tens = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
    if n < 20:
        return ones[n]
    if n < 100:
        return tens[n // 10] + (f"-{ones[n % 10]}" if n % 10 else "")
    return f"{ones[n // 100]} hundred" + (f" and {english(n % 100)}" if n % 100 else "")


def german(n):
    ones = (
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
        "siebzehn achtzehn neunzehn"
    ).split()
    tens = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()

    def joined(n):
        return "ein" if n == 1 else ones[n]

    if n < 20:
        return ones[n]
    if n < 100:
        return (f"{joined(n % 10)}und" if n % 10 else "") + tens[n // 10]
    return f"{joined(n // 100)}hundert" + (german(n % 100) if n % 100 else "")


def french(n):
    ones = (
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept "
        "dix-huit dix-neuf"
    ).split()
    tens = "- - vingt trente quarante cinquante soixante".split()
    if n < 20:
        return ones[n]
    if n < 70:
        return tens[n // 10] + {0: "", 1: " et un"}.get(n % 10, f"-{ones[n % 10]}")
    if n == 71:
        return "soixante et onze"
    if n < 80:
        return f"soixante-{french(n - 60)}"
    if n == 80:
        return "quatre-vingts"
    if n < 100:
        return f"quatre-vingt-{french(n - 80)}"
    hundreds = "cent" if n < 200 else f"{ones[n // 100]} cent"
    if n % 100:
        return f"{hundreds} {french(n % 100)}"
    return hundreds + ("s" if n > 100 else "")


def spanish(n):
    ones = (
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
        "dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete "
        "veintiocho veintinueve"
    ).split()
    tens = "- - - treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()
    hundreds = (
        "- ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"
    ).split()
    if n < 30:
        return ones[n]
    if n < 100:
        return tens[n // 10] + (f" y {ones[n % 10]}" if n % 10 else "")
    if n == 100:
        return "cien"
    return hundreds[n // 100] + (f" {spanish(n % 100)}" if n % 100 else "")


def italian(n):
    ones = (
        "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici "
        "diciassette diciotto diciannove"
    ).split()
    tens = "- - venti trenta quaranta cinquanta sessanta settanta ottanta novanta".split()
    if n < 20:
        return ones[n]
    if n < 100:
        one = n % 10
        if one == 0:
            return tens[n // 10]
        if one in (1, 8):
            return tens[n // 10][:-1] + ones[one]
        return tens[n // 10] + ("tré" if one == 3 else ones[one])
    hundreds = "cento" if n < 200 else f"{ones[n // 100]}cento"
    if n % 100 == 3:
        return hundreds + "tré"
    return hundreds + (italian(n % 100) if n % 100 else "")


LANGUAGES = [english, german, french, spanish, italian]


def pieces(text):
    text, rows = f"^{text}$", []
    for i in range(len(text) - 2):
        hash = 0xCBF29CE484222325
        for byte in text[i : i + 3].encode():
            hash = (hash ^ byte) * 0x100000001B3 % 2**64
        rows.append(hash % ROWS)
    return rows


def batch(samples):
    rows, starts = [], []
    for text, _ in samples:
        starts.append(len(rows))
        rows += pieces(text)
    return torch.tensor(rows), torch.tensor(starts), torch.tensor([language for _, language in samples])


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(ROWS, WIDTH)
        self.fc = nn.Linear(WIDTH, len(LANGUAGES))

    def forward(self, rows, starts):
        return self.fc(self.embedding(rows, starts))


@torch.no_grad()
def accuracy(model, loader):
    right = all = 0
    for rows, starts, languages in loader:
        right += (model(rows, starts).argmax(1) == languages).sum().item()
        all += len(languages)
    return 100 * right / all


def main(argv=None):
    args = twin.arguments(argv, epochs=8)
    torch.manual_seed(0)
    train, test = (
        DataLoader(
            [(spelled(n), language) for n in part for language, spelled in enumerate(LANGUAGES)],
            batch_size=BATCH,
            shuffle=i == 0,
            collate_fn=batch,
        )
        for i, part in enumerate(random_split(range(1000), [0.8, 0.2]))
    )
    model = Classifier()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    losses, right = [], []
    for _ in range(args.epochs):
        for rows, starts, languages in train:
            optimizer.zero_grad()
            loss = criterion(model(rows, starts), languages)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        right.append(accuracy(model, test))
    print(f"accuracy on unseen texts: {right[-1] if right else 0:.2f} %")
    twin.save_losses(args, losses + right)


if __name__ == "__main__":
    main()
